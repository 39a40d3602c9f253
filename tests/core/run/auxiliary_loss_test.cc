// Training with auxiliary losses: what is minimised, what is reported, and what evaluation runs.
#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "neap/core/program/passes.h"
#include "neap/core/run/parallel_session.h"
#include "neap/core/run/session.h"
#include "neap/layers/activation.h"
#include "neap/layers/collectives/local_ranks.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"
#include "neap/memory/create_session.h"
#include "neap/memory/planner.h"
#include "neap/nets/with_loss.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap {
namespace {

constexpr float kWeight = 0.25F;
constexpr TrainingOptions kPlainTraining = {.optimizer = {.momentum = 0},
                                            .learning_rate = {.base = 0.1F}};

// A trunk with a classifier at its end and another one in its middle. Either may be the main one,
// with or without the other as an auxiliary one.
struct Heads {
  bool end = true;
  bool middle = true;
};
constexpr Heads kBoth = {}, kEnd = {.middle = false}, kMiddle = {.end = false};

Graph TwoHeaded(const Heads& heads, GraphOptions options = {}) {
  options.batch = options.batch == 1 ? 8 : options.batch;
  Graph net(options);
  std::string x = net.Input({3, 8, 8});
  x = net.Add("conv1", Convolution{.out_channels = 6, .kernel = 3, .padding = 1}, {x});
  x = net.Add("relu1", Relu{}, {x});
  std::string middle;
  if (heads.middle) {
    middle = net.Add("middle.conv", Convolution{.out_channels = 4}, {x});
    middle = net.Add("middle.pool", GlobalAveragePool{}, {middle});
    middle = net.Add("middle.fc", FullyConnected{.out_features = 4}, {middle});
  }
  if (heads.end) {
    x = net.Add("conv2", Convolution{.out_channels = 6, .kernel = 3, .padding = 1}, {x});
    x = net.Add("relu2", Relu{}, {x});
    x = net.Add("fc", FullyConnected{.out_features = 4}, {x});
    net.Loss(x, SoftmaxCrossEntropy{});
    if (heads.middle) net.AuxiliaryLoss(middle, SoftmaxCrossEntropy{.weight = kWeight});
  } else {
    net.Loss(middle, SoftmaxCrossEntropy{});
  }
  return net;
}

StepResult OneStep(Session& session, uint64_t seed = 1) {
  REQUIRE(session.Begin(MakeBatch(seed)).ok());
  return session.Finish().value();
}

TEST_CASE("training minimises the main loss plus the weighted auxiliary one, and reports it") {
  const auto device = OpenCpu();
  for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    const GraphOptions options = {.layout = layout};
    Session both = Opened(TwoHeaded(kBoth, options), *device, {}, kPlainTraining);
    Session end = Opened(TwoHeaded(kEnd, options), *device, {}, kPlainTraining);
    Session middle = Opened(TwoHeaded(kMiddle, options), *device, {}, kPlainTraining);
    const std::vector<float> start = both.Values("conv1.weight").value();
    REQUIRE(start == end.Values("conv1.weight").value());
    REQUIRE(start == middle.Values("conv1.weight").value());
    const StepResult of_both = OneStep(both), of_end = OneStep(end), of_middle = OneStep(middle);
    CHECK(of_both.loss == doctest::Approx(of_end.loss + kWeight * of_middle.loss));
    CHECK(of_both.correct == of_end.correct);
    const std::vector<float> by_both = both.Values("conv1.weight").value();
    const std::vector<float> by_end = end.Values("conv1.weight").value();
    const std::vector<float> by_middle = middle.Values("conv1.weight").value();
    for (size_t i = 0; i < start.size(); ++i) {
      CAPTURE(i);
      const float expected = (by_end[i] - start[i]) + kWeight * (by_middle[i] - start[i]);
      CHECK(std::abs(by_both[i] - start[i] - expected) < 1e-6F);
    }
    CHECK(both.Values("fc.weight").value() == end.Values("fc.weight").value());
    const std::vector<float> own = both.Values("middle.fc.weight").value();
    const std::vector<float> alone = middle.Values("middle.fc.weight").value();
    CHECK(own != alone);
  }
}

TEST_CASE("evaluation and prediction are those of the main classifier alone") {
  const auto device = OpenCpu();
  Session both = Opened(TwoHeaded(kBoth), *device, {}, kPlainTraining);
  for (uint64_t step = 0; step < 5; ++step) OneStep(both, step);
  Session end = Opened(TwoHeaded(kEnd), *device, {}, kPlainTraining);
  NamedValues weights;
  const std::vector<NamedTensor> trained = both.Weights().value();
  for (const NamedTensor& tensor : trained) {
    if (tensor.name.find("middle") != 0) weights[tensor.name] = tensor.values;
  }
  CHECK(weights.size() + 4 == trained.size());
  REQUIRE(end.LoadWeights(weights).ok());
  const Batch batch = MakeBatch(77);
  const StepResult of_both = both.Evaluate(batch).value(), of_end = end.Evaluate(batch).value();
  CHECK(of_both.loss == of_end.loss);
  CHECK(of_both.correct == of_end.correct);
  CHECK(both.Predict(batch.images)->logits == end.Predict(batch.images)->logits);
}

TEST_CASE("inference has the classifier's parameters, but none of its steps") {
  const auto device = OpenCpu();
  for (const bool trainable : {true, false}) {
    const Program program =
        Lower(TwoHeaded(kBoth), {.mode = Mode::kInference, .trainable = trainable},
              device->description())
            .value();
    bool has_weight = false;
    for (const Tensor& tensor : program.tensors) has_weight |= tensor.name == "middle.fc.weight";
    CHECK(has_weight);
    for (const neap::Step& step : program.steps)
      CHECK(program.StepName(step).find("middle") == std::string::npos);
    CHECK(program.losses.size() == 1);
  }
}

TEST_CASE("sub-batches and ranks train as the whole batch does") {
  const auto device = OpenCpu();
  Session whole = Opened(TwoHeaded(kBoth), *device, {}, kPlainTraining);
  Session in_parts = Opened(TwoHeaded(kBoth), *device, {.sub_batches = 4}, kPlainTraining);
  Session uneven = Opened(TwoHeaded(kBoth), *device, {.sub_batches = 3}, kPlainTraining);
  LocalRanks group(2, std::chrono::seconds(20));
  const auto second = OpenCpu();
  std::vector<std::unique_ptr<Communicator>> communicators;
  std::vector<ParallelSession::Rank> ranks;
  for (CpuDevice* const of_rank : {device.get(), second.get()}) {
    communicators.push_back(group.Join(static_cast<int>(ranks.size()), *of_rank));
    ranks.push_back({.images = 4,
                     .device = of_rank,
                     .planner = PlannerFor({.policy = "liveness"}),
                     .communicator = communicators.back().get()});
  }
  const auto net = [](int64_t batch) { return TwoHeaded(kBoth, {.batch = batch}); };
  absl::StatusOr<ParallelSession> parallel = ParallelSession::Create(net, ranks, kPlainTraining);
  REQUIRE_MESSAGE(parallel.ok(), parallel.status().ToString());
  for (uint64_t step = 0; step < 5; ++step) {
    CAPTURE(step);
    const StepResult expected = OneStep(whole, step);
    for (Session* const session : {&in_parts, &uneven}) {
      const StepResult of_parts = OneStep(*session, step);
      CHECK(of_parts.loss == doctest::Approx(expected.loss).epsilon(1e-5));
      CHECK(of_parts.correct == expected.correct);
    }
    REQUIRE(parallel->Begin(MakeBatch(step)).ok());
    const StepResult of_ranks = parallel->Finish().value();
    CHECK(of_ranks.loss == doctest::Approx(expected.loss).epsilon(1e-5));
    CHECK(of_ranks.correct == expected.correct);
  }
}

TEST_CASE("16-bit types, label smoothing and losses against targets have auxiliary losses") {
  const auto device = OpenCpu();
  Session exact = Opened(TwoHeaded(kBoth), *device, {}, kPlainTraining);
  std::vector<float> losses;
  for (uint64_t step = 0; step < 5; ++step) losses.push_back(OneStep(exact, step).loss);
  for (const DType dtype : {DType::kFp16, DType::kBf16}) {
    Session session = Opened(TwoHeaded(kBoth, {.dtype = dtype}), *device, {}, kPlainTraining);
    for (uint64_t step = 0; step < 5; ++step) {
      const StepResult result = OneStep(session, step);
      CHECK_FALSE(result.skipped);
      CHECK(result.loss == doctest::Approx(losses[step]).epsilon(0.02));
    }
  }
  const auto sum = [&](const auto& change) {
    Session both = Opened(change(TwoHeaded(kBoth)), *device, {}, kPlainTraining);
    Session end = Opened(change(TwoHeaded(kEnd)), *device, {}, kPlainTraining);
    Session middle = Opened(change(TwoHeaded(kMiddle)), *device, {}, kPlainTraining);
    const float expected = OneStep(end).loss + kWeight * OneStep(middle).loss;
    CHECK(OneStep(both).loss == doctest::Approx(expected));
  };
  sum([](const Graph& net) { return nets::WithLabelSmoothing(net, 0.2F).value(); });
  sum([](const Graph& net) { return nets::WithTargetLoss(net, BinaryCrossEntropy{}).value(); });
  sum([](const Graph& net) { return nets::WithTargetLoss(net, MeanSquaredError{}).value(); });
}

TEST_CASE("a checkpoint has the auxiliary classifier, and training goes on with its bits") {
  const auto device = OpenCpu();
  const ScratchDirectory directory;
  Session session = Opened(TwoHeaded(kBoth), *device, {}, kPlainTraining);
  for (uint64_t step = 0; step < 3; ++step) OneStep(session, step);
  REQUIRE(session.Save(directory.File("c.safetensors")).ok());
  Session other = Opened(TwoHeaded(kBoth), *device, {}, kPlainTraining);
  REQUIRE(other.Load(directory.File("c.safetensors")).ok());
  CHECK(OneStep(session, 3).loss == OneStep(other, 3).loss);
  CheckSameState(session, other);
}

}  // namespace
}  // namespace neap
