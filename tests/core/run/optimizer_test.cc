// Optimizers in sessions: what core/step/optimizer.h says, from one step to the next.
#include "neap/core/step/optimizer.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "neap/core/run/session.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"
#include "tests/rank_training.h"
#include "tests/scratch_directory.h"
#include "tests/small_training.h"

namespace neap {
namespace {

constexpr float kRate = 0.01F;
constexpr Optimizer kAdamW = {.rule = Optimizer::Rule::kAdamW, .weight_decay = 0.1F};
constexpr const char* kParams[] = {"conv1.weight", "bn1.weight", "bn1.bias", "conv2.weight",
                                   "conv2.bias",   "fc.weight",  "fc.bias"};

Session SessionWith(Device& device, const Optimizer& optimizer, PlannerOptions planning = {}) {
  return MakeSession(device, std::move(planning),
                     {.optimizer = optimizer, .learning_rate = {.base = kRate}});
}

std::vector<float> ValuesOf(Session& session, const std::string& tensor) {
  absl::StatusOr<std::vector<float>> values = session.Values(tensor);
  REQUIRE_MESSAGE(values.ok(), values.status().ToString());
  return *std::move(values);
}

float Loss(Session& session) {
  const absl::StatusOr<StepResult> result = session.Evaluate(MakeBatch(100));
  REQUIRE_MESSAGE(result.ok(), result.status().ToString());
  return result->loss;
}

}  // namespace

TEST_CASE("AdamW's steps follow from its moments, which begin with 0, and from their number") {
  const auto device = OpenCpu();
  Session session = SessionWith(*device, kAdamW);
  for (int step = 1; step <= 4; ++step) {
    CAPTURE(step);
    const std::vector<float> m = ValuesOf(session, "fc.weight.exp_avg");
    const std::vector<float> v = ValuesOf(session, "fc.weight.exp_avg_sq");
    const std::vector<float> w = ValuesOf(session, "fc.weight");
    REQUIRE(session.TrainStep(MakeBatch(static_cast<uint64_t>(step))).ok());
    const std::vector<float> new_m = ValuesOf(session, "fc.weight.exp_avg");
    const std::vector<float> new_v = ValuesOf(session, "fc.weight.exp_avg_sq");
    const std::vector<float> new_w = ValuesOf(session, "fc.weight");
    for (size_t i = 0; i < w.size(); ++i) {
      if (step == 1) CHECK((m[i] == 0 && v[i] == 0));
      const double gradient = (new_m[i] - 0.9 * m[i]) / 0.1;
      CHECK(new_v[i] == doctest::Approx(0.999 * v[i] + 0.001 * gradient * gradient).epsilon(1e-3));
      const double mean = new_m[i] / (1 - std::pow(0.9, step));
      const double root = std::sqrt(new_v[i] / (1 - std::pow(0.999, step))) + 1e-8;
      const double want = w[i] * (1 - kRate * 0.1) - kRate * mean / root;
      CHECK(new_w[i] == doctest::Approx(want).epsilon(1e-5));
    }
  }
}

TEST_CASE("clipped gradients change the parameters by the clip norm at most, and no smaller ones") {
  const auto device = OpenCpu();
  // The norm of the change of all parameters together in one step, over the learning rate.
  const auto change = [&](float clip_norm) {
    Session session = SessionWith(*device, {.momentum = 0, .clip_norm = clip_norm});
    std::vector<std::vector<float>> before;
    for (const char* name : kParams) before.push_back(ValuesOf(session, name));
    REQUIRE(session.TrainStep(MakeBatch(1)).ok());
    double squares = 0;
    for (size_t k = 0; k < before.size(); ++k) {
      const std::vector<float> after = ValuesOf(session, kParams[k]);
      for (size_t i = 0; i < after.size(); ++i)
        squares += std::pow(static_cast<double>(after[i]) - static_cast<double>(before[k][i]), 2);
    }
    return std::sqrt(squares) / kRate;
  };
  const double norm = change(0);
  REQUIRE(norm > 0.1);
  for (const double part : {0.9, 0.1, 0.01})
    CHECK(change(static_cast<float>(part * norm)) == doctest::Approx(part * norm).epsilon(1e-3));
  CHECK(change(static_cast<float>(1.1 * norm)) == norm);
}

TEST_CASE("Nesterov's step is that of the gradient and of the momentum after it") {
  const auto device = OpenCpu();
  Session session = SessionWith(*device, {.nesterov = true});
  for (uint64_t step = 0; step < 3; ++step) {
    const std::vector<float> v = ValuesOf(session, "fc.bias.momentum");
    const std::vector<float> w = ValuesOf(session, "fc.bias");
    REQUIRE(session.TrainStep(MakeBatch(step)).ok());
    const std::vector<float> new_v = ValuesOf(session, "fc.bias.momentum");
    const std::vector<float> new_w = ValuesOf(session, "fc.bias");
    for (size_t i = 0; i < w.size(); ++i) {
      const double gradient = new_v[i] - 0.9 * v[i];
      CHECK(w[i] - new_w[i] == doctest::Approx(kRate * (gradient + 0.9 * new_v[i])).epsilon(1e-3));
    }
  }
}

TEST_CASE("averages begin with the weights, follow them, and can take their place") {
  const auto device = OpenCpu();
  Session session = SessionWith(*device, {.average_decay = 0.75F});
  CHECK(session.keeps_averages());
  CHECK(ValuesOf(session, "conv2.weight.average") == ValuesOf(session, "conv2.weight"));
  for (uint64_t step = 0; step < 3; ++step) {
    const std::vector<float> before = ValuesOf(session, "conv2.weight.average");
    REQUIRE(session.TrainStep(MakeBatch(step)).ok());
    const std::vector<float> average = ValuesOf(session, "conv2.weight.average");
    const std::vector<float> w = ValuesOf(session, "conv2.weight");
    for (size_t i = 0; i < w.size(); ++i)
      CHECK(average[i] == doctest::Approx(0.75 * before[i] + 0.25 * w[i]).epsilon(1e-5));
  }
  const std::vector<float> weights = ValuesOf(session, "conv2.weight");
  const std::vector<float> averages = ValuesOf(session, "conv2.weight.average");
  const float loss = Loss(session);
  REQUIRE(session.ExchangeAverages().ok());
  CHECK(ValuesOf(session, "conv2.weight") == averages);
  CHECK(Loss(session) != loss);
  const ScratchDirectory directory;
  const std::string file = directory.File("averages.safetensors");
  CHECK(absl::IsFailedPrecondition(session.TrainStep(MakeBatch(9)).status()));
  CHECK(absl::IsFailedPrecondition(session.SetTrainingGraph(SmallNet())));
  CHECK(absl::IsFailedPrecondition(session.Save(file)));
  REQUIRE(session.SaveWeights(file).ok());
  REQUIRE(session.ExchangeAverages().ok());
  CHECK(ValuesOf(session, "conv2.weight") == weights);
  CHECK(Loss(session) == loss);
  REQUIRE(session.TrainStep(MakeBatch(9)).ok());

  // What was written are the averages, and averages begin with weights that are loaded.
  REQUIRE(session.Load(file).ok());
  CHECK(ValuesOf(session, "conv2.weight") == averages);
  CHECK(ValuesOf(session, "conv2.weight.average") == averages);

  Session without = SessionWith(*device, {});
  CHECK(!without.keeps_averages());
  CHECK(absl::IsFailedPrecondition(without.ExchangeAverages()));
}

TEST_CASE("with 16-bit weights, masters are exchanged with their averages") {
  const auto device = OpenCpu();
  absl::StatusOr<Session> session =
      CreateSession(SmallNet(Layout::kChannelsFirst, true, DType::kBf16), *device, {},
                    {.optimizer = {.average_decay = 0.5F}, .learning_rate = {.base = 0.1F}});
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  Train(*session, 3);
  const float loss = Loss(*session);
  const std::vector<float> master = ValuesOf(*session, "fc.weight");
  const std::vector<float> average = ValuesOf(*session, "fc.weight.average");
  const std::vector<float> rounded = ValuesOf(*session, "fc.weight.bf16");
  REQUIRE(session->ExchangeAverages().ok());
  CHECK(ValuesOf(*session, "fc.weight") == average);
  CHECK(ValuesOf(*session, "fc.weight.bf16") != rounded);
  CHECK(Loss(*session) != loss);
  REQUIRE(session->ExchangeAverages().ok());
  CHECK(ValuesOf(*session, "fc.weight") == master);
  CHECK(ValuesOf(*session, "fc.weight.bf16") == rounded);
  CHECK(Loss(*session) == loss);
}

TEST_CASE(
    "ranks clip the gradients of the whole batch, average, and have the same bits in any plan") {
  testing::RankTraining training = {
      .net = {}, .split = {3, 1}, .steps = 8, .image_values = 3 * 8 * 8};
  training.net = [](int64_t batch) {
    Graph net({.name = "ranks", .batch = batch});
    std::string x = net.Input({3, 8, 8});
    x = net.Add("conv", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {x});
    x = net.Add("relu", Relu{}, {x});
    net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
    return net;
  };
  training.bucket_bytes = 1000;
  for (const Optimizer& optimizer :
       {Optimizer{.nesterov = true, .clip_norm = 0.3F, .average_decay = 0.5F},
        Optimizer{.rule = Optimizer::Rule::kAdamW, .clip_norm = 0.3F, .average_decay = 0.5F}}) {
    training.optimizer = optimizer;
    const Trained expected = testing::TrainOnThreads(training, {{.policy = "keep-all"}})[0];
    const std::vector<PlannerOptions> tight = {testing::TightPolicy(training, 3),
                                               testing::TightPolicy(training, 4, *OpenCpu(), 1)};
    for (const Trained& trained : testing::TrainOnThreads(training, tight))
      CHECK(AreSame(trained, expected));
    // AdamW divides by gradients that are almost 0, so their last bits matter.
    const bool is_adamw = optimizer.rule == Optimizer::Rule::kAdamW;
    CHECK(testing::AreClose(expected, testing::TrainAlone(training), is_adamw ? 0.05F : 1e-4F));
  }
}

TEST_CASE("training goes on from a checkpoint with the same bits, whatever the optimizer") {
  const auto device = OpenCpu();
  for (const Optimizer& optimizer :
       {Optimizer{.nesterov = true, .clip_norm = 0.5F},
        Optimizer{.rule = Optimizer::Rule::kAdamW, .clip_norm = 1, .average_decay = 0.9F}}) {
    const ScratchDirectory directory;
    const std::string file = directory.File("checkpoint.safetensors");
    Session whole = SessionWith(*device, optimizer);
    Train(whole, 3);
    REQUIRE(whole.Save(file).ok());
    PlannerOptions tight = {.policy = "tensor-cache"};
    tight.budget_bytes = SessionWith(*device, optimizer, tight).planning().minimum_budget_bytes;
    Session resumed = SessionWith(*device, optimizer, tight);
    REQUIRE(resumed.Load(file).ok());
    Train(whole, 2);
    Train(resumed, 2);
    CheckSameState(whole, resumed);
    // An optimizer that keeps less reads its own part of the file as weights.
    Session other = SessionWith(*device, {.momentum = 0});
    CHECK(other.Load(file).ok());
  }
  Session session = SessionWith(*device, kAdamW);
  const ScratchDirectory directory;
  const std::string file = directory.File("sgd.safetensors");
  REQUIRE(SessionWith(*device, {}).Save(file).ok());
  const absl::Status missing = session.Load(file);
  CHECK(std::string(missing.message())
            .find("tensor 'conv1.weight.exp_avg' is missing; the file "
                  "is of a training with another optimizer") != std::string::npos);
  // Averages can begin later.
  Session averaged = SessionWith(*device, {.average_decay = 0.5F});
  REQUIRE(averaged.Load(file).ok());
  CHECK(ValuesOf(averaged, "fc.weight.average") == ValuesOf(averaged, "fc.weight"));
}

}  // namespace neap
