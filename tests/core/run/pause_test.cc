// Training that pauses after forward, and goes on with gradients of outputs that the caller gives:
// what it computes.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "neap/core/run/ranks.h"
#include "neap/core/run/session.h"
#include "neap/layers/activation.h"
#include "neap/layers/collectives/local_ranks.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"
#include "neap/memory/policies/policies.h"
#include "tests/core/run/paused_training.h"
#include "tests/given_gradients.h"
#include "tests/small_training.h"

namespace neap::pause_test {

using testing::CheckSameParameters;
using testing::GivenLosses;

namespace {

// With the loss in the network and with its gradient given, in all memory that a policy takes and
// in the smallest budget.
void CheckEqualsLoss(const Graph& net, const TrainingOptions& training, PlannerOptions planning) {
  const auto device = OpenCpu();
  Session with_loss = Opened(net, *device, planning, training);
  Train(with_loss, 4);
  const Graph given = GivenLosses(net).net();
  Session natural = Opened(given, *device, planning, training);
  TrainGiven(natural, net, 4);
  CheckSameParameters(natural, with_loss);
  planning.budget_bytes = natural.planning().minimum_budget_bytes;
  Session tight = Opened(given, *device, planning, training);
  CHECK(tight.memory().arena_bytes <= planning.budget_bytes);
  TrainGiven(tight, net, 4);
  CheckSameParameters(tight, with_loss);
}

}  // namespace

TEST_CASE("a gradient that is given trains as the loss that it is of, bit for bit, by any policy") {
  for (const Policy& policy : Policies()) {
    CAPTURE(policy.name);
    CheckEqualsLoss(BlockNet({.batch_norm = true}), {}, {.policy = std::string(policy.name)});
  }
}

TEST_CASE("a gradient that is given trains as its loss with every optimizer and type") {
  const Optimizer adamw = {.rule = Optimizer::Rule::kAdamW, .average_decay = 0.9F};
  const Optimizer clipped = {.clip_norm = 0.5F};
  for (const Optimizer& optimizer : {adamw, clipped}) {
    CAPTURE(optimizer.clip_norm);
    CheckEqualsLoss(BlockNet(), {.optimizer = optimizer}, {.policy = "superneurons"});
  }
  for (const DType dtype : {DType::kBf16, DType::kFp16}) {
    CAPTURE(Name(dtype));
    for (const char* policy : {"keep-all", "tensor-cache", "superneurons", "auto"})
      CheckEqualsLoss(BlockNet({.dtype = dtype, .batch_norm = true}), {}, {.policy = policy});
  }
}

TEST_CASE("parameters may be on the host over the pause") {
  CheckEqualsLoss(BlockNet(), {}, {.policy = "superneurons", .offload_params = true});
}

TEST_CASE("the outputs are what evaluation computes of them, and are handed out before backward") {
  const auto device = OpenCpu();
  Session session = Opened(Given({.dropout = false}), *device, {.policy = "superneurons"});
  const Batch batch = MakeBatch(3);
  const Feeds feeds = {{.name = "input", .floats = batch.images}};
  const std::vector<NamedTensor> evaluated = session.Evaluate(feeds)->outputs;
  const std::vector<NamedTensor> outputs = session.Forward(feeds).value();
  REQUIRE(outputs.size() == 1);
  CHECK(outputs[0].name == "fc");
  CHECK(outputs[0].shape == Shape{8, 4, 1, 1});
  CHECK(SameBits(outputs[0].values, evaluated[0].values));
  REQUIRE(session.SkipBackward().ok());
}

TEST_CASE("the gradient of each parameter follows from the gradient that is given") {
  const auto device = OpenCpu();
  Graph net({.name = "linear", .batch = 2});
  net.Input("x", {3, 1, 1});
  net.OutputWithGradient(net.Add("fc", FullyConnected{.out_features = 2}, {"x"}));
  Session session =
      Opened(net, *device, {},
             {.optimizer = {.momentum = 0, .weight_decay = 0}, .learning_rate = {.base = 0.5F}});
  const std::vector<float> x = {1, 2, 4, 8, -1, 2}, given = {1, -2, 0.5F, 4};
  std::vector<float> weight = session.Values("fc.weight").value();
  std::vector<float> bias = session.Values("fc.bias").value();
  const std::vector<NamedTensor> outputs = session.Forward({{.name = "x", .floats = x}}).value();
  for (size_t n = 0; n < 2; ++n) {
    for (size_t k = 0; k < 2; ++k) {
      float sum = bias[k];
      for (size_t c = 0; c < 3; ++c) sum += x[n * 3 + c] * weight[k * 3 + c];
      CHECK(outputs.at(0).values[n * 2 + k] == doctest::Approx(sum));
    }
  }
  REQUIRE(session.Backward({{.name = "fc", .floats = given}}).ok());
  for (size_t k = 0; k < 2; ++k) {
    for (size_t c = 0; c < 3; ++c)
      weight[k * 3 + c] -= 0.5F * (given[k] * x[c] + given[2 + k] * x[3 + c]);
    bias[k] -= 0.5F * (given[k] + given[2 + k]);
  }
  const std::vector<float> weight_after = session.Values("fc.weight").value();
  const std::vector<float> bias_after = session.Values("fc.bias").value();
  for (size_t i = 0; i < 6; ++i) CHECK(weight_after[i] == doctest::Approx(weight[i]));
  for (size_t i = 0; i < 2; ++i) CHECK(bias_after[i] == doctest::Approx(bias[i]));
}

TEST_CASE("a network may have losses of its own, outputs, and outputs whose gradients are given") {
  const auto device = OpenCpu();
  const HeadsBatch batch;
  for (const std::vector<std::string>& kept :
       {std::vector<std::string>{"kind_loss"}, {"size_loss"}, {}}) {
    CAPTURE(kept.size());
    for (const char* policy : {"keep-all", "superneurons", "recompute-memory"}) {
      CAPTURE(policy);
      Session with_losses = Opened(TwoHeads(), *device, {.policy = policy});
      const GivenLosses losses(TwoHeads(), kept);
      Session session = Opened(losses.net(), *device, {.policy = policy});
      for (int step = 0; step < 3; ++step) {
        const StepResult expected = with_losses.Step(batch.feeds()).value();
        const std::vector<NamedTensor> outputs =
            session.Forward(losses.FeedsOf(batch.feeds())).value();
        for (const NamedTensor& output : outputs) {  // "kinds" always, the first layer of them
          if (output.name == "kinds") CHECK(SameBits(output.values, expected.outputs[0].values));
        }
        CHECK(outputs.size() == (kept.size() == 1 && kept[0] == "size_loss" ? 1 : 2));
        const auto gradients = losses.GradientsOf(outputs, batch.feeds());
        const StepResult result = session.Backward(losses.Named(gradients)).value();
        REQUIRE(result.losses.size() == kept.size());
        for (const LossResult& loss : result.losses) {
          const LossResult& own = expected.losses[loss.name == "kind_loss" ? 0 : 1];
          CHECK(own.name == loss.name);
          CHECK(loss.loss == own.loss);
          CHECK(loss.correct == own.correct);
        }
      }
      CheckSameParameters(session, with_losses);
    }
  }
}

// The gradient of (y, v) with respect to y is v, and that of the sum of losses the sum.
TEST_CASE("what is given of an output that other layers read is added to what they contribute") {
  const auto device = OpenCpu();
  const TrainingOptions plain = {.optimizer = {.momentum = 0, .weight_decay = 0},
                                 .learning_rate = {.base = 1}};
  const HeadsBatch batch;
  Graph both = TwoHeads();
  both.OutputWithGradient("middle");
  const auto gradient_of = [&](const Graph& net, float factor, bool gives) {
    Session session = Opened(net, *device, {.policy = "superneurons"}, plain);
    const std::vector<float> before = session.Values("conv.weight").value();
    std::vector<float> given(4 * 4 * 16);
    for (size_t i = 0; i < given.size(); ++i)
      given[i] = factor * std::cos(static_cast<float>(3 * i));
    if (gives) {
      REQUIRE(session.Forward(batch.feeds()).ok());
      REQUIRE(session.Backward({{.name = "middle", .floats = given}}).ok());
    } else {
      REQUIRE(session.Step(batch.feeds()).ok());
    }
    const std::vector<float> after = session.Values("conv.weight").value();
    std::vector<double> gradient;
    for (size_t i = 0; i < after.size(); ++i)
      gradient.push_back(static_cast<double>(before[i]) - static_cast<double>(after[i]));
    return gradient;
  };
  const std::vector<double> of_losses = gradient_of(TwoHeads(), 0, /*gives=*/false);
  const std::vector<double> with_none = gradient_of(both, 0, /*gives=*/true);
  const std::vector<double> sum = gradient_of(both, 0.125F, /*gives=*/true);
  const std::vector<double> twice = gradient_of(both, 0.25F, /*gives=*/true);
  double largest = 0;
  for (size_t i = 0; i < sum.size(); ++i) {
    CHECK(std::abs(with_none[i] - of_losses[i]) < 1e-6);
    CHECK(std::abs(twice[i] - sum[i] - (sum[i] - of_losses[i])) < 1e-5);
    largest = std::max(largest, std::abs(sum[i] - of_losses[i]));
  }
  CHECK(largest > 1e-2);
}

TEST_CASE("gradients of several batches are summed before an update") {
  const auto device = OpenCpu();
  for (const DType dtype : {DType::kFp32, DType::kFp16}) {
    CAPTURE(Name(dtype));
    const Graph net = BlockNet({.dtype = dtype});
    const GivenLosses losses(net);
    Session with_loss = Opened(net, *device, {}, {.accumulate = 3});
    Session session = Opened(losses.net(), *device, {.policy = "superneurons"}, {.accumulate = 3});
    for (int64_t step = 0; step < 3; ++step) {
      for (int64_t index = 0; index < 3; ++index) {
        const Batch batch = MakeBatch(static_cast<uint64_t>(step * 3 + index));
        REQUIRE(with_loss.Accumulate(batch).ok());
        CHECK(session.accumulated() == index);
        if (index == 1) {  // a batch that is given up is not one of them
          REQUIRE(session.Forward(losses.FeedsOf(FeedsOf(batch))).ok());
          CHECK(session.Update().status().code() == kRefused);
          CHECK(session.Discard().code() == kRefused);
          REQUIRE(session.SkipBackward().ok());
          CHECK(session.accumulated() == index);
        }
        CHECK(losses.Step(session, FeedsOf(batch), /*batches=*/3).step == step);
      }
      CHECK(session.Forward(losses.FeedsOf(FeedsOf(MakeBatch(0)))).status().code() == kRefused);
      REQUIRE(with_loss.Update().ok());
      REQUIRE(session.Update().ok());
    }
    CheckSameParameters(session, with_loss);
  }
}

TEST_CASE("fp16 scales what is given, and skips a step whose gradients are not finite") {
  const auto device = OpenCpu();
  Session session = Opened(Given({.dtype = DType::kFp16}), *device);
  const Batch batch = MakeBatch(1);
  const Feeds feeds = {{.name = "input", .floats = batch.images}};
  // 2^-26 rounds to 0 in fp16, but 2^16 times that does not.
  const std::vector<float> small(32, 0x1p-26F);
  const std::vector<float> before = session.Values("fc.bias").value();
  REQUIRE(session.Forward(feeds).ok());
  const StepResult scaled = session.Backward({{.name = "fc", .floats = small}}).value();
  CHECK(!scaled.skipped);
  CHECK(scaled.used_loss_scale == 65536);
  const std::vector<float> momentum = session.Values("fc.bias.momentum").value();
  for (const float value : momentum) CHECK(value == 8 * 0x1p-26F);  // of 8 images
  const std::vector<float> learned = session.Values("fc.weight").value();
  std::vector<float> infinite = small;
  infinite[5] = std::numeric_limits<float>::infinity();
  REQUIRE(session.Forward(feeds).ok());
  const StepResult skipped = session.Backward({{.name = "fc", .floats = infinite}}).value();
  CHECK(skipped.skipped);
  CHECK(skipped.skipped_steps == 1);
  CHECK(skipped.loss_scale == 32768);
  CHECK(SameBits(session.Values("fc.weight").value(), learned));
  REQUIRE(session.Forward(feeds).ok());
  const StepResult taken = session.Backward({{.name = "fc", .floats = small}}).value();
  CHECK(!taken.skipped);
  CHECK(taken.used_loss_scale == 32768);
}

TEST_CASE("a step has the size of what is given to its forward") {
  const auto device = OpenCpu();
  Graph net({.name = "sizes", .batch = 8});
  std::string x = net.Input({3, 8, 8});
  x = net.Add("conv", Convolution{.out_channels = 8, .kernel = 3, .padding = 1}, {x});
  x = net.Add("pool", GlobalAveragePool{}, {net.Add("relu", Relu{}, {x})});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  net.Sizes({{.extents = {4, 4}}, {.extents = {6, 6}, .batch = 4}});
  const GivenLosses losses(net);
  Session with_loss = Opened(net, *device);
  Session session = Opened(losses.net(), *device, {.policy = "superneurons"});
  const Batch batch = MakeBatch(2);
  for (const auto& [images, extent] :
       {std::pair<int64_t, int64_t>{8, 8}, {4, 6}, {8, 4}, {4, 6}, {8, 8}}) {
    const auto values = static_cast<size_t>(images * 3 * extent * extent);
    const Feeds feeds = {{.name = "input",
                          .floats = {batch.images.data(), values},
                          .shape = {images, 3, extent, extent}},
                         {.name = "labels",
                          .integers = {batch.labels.data(), static_cast<size_t>(images)},
                          .shape = {images}}};
    REQUIRE(with_loss.Step(feeds).ok());
    REQUIRE(session.Forward(losses.FeedsOf(feeds)).ok());
    REQUIRE(session.SkipBackward().ok());
    losses.Step(session, feeds);
  }
  CheckSameParameters(session, with_loss);
}

TEST_CASE("the gradients that two ranks give are summed") {
  const Graph net = BlockNet({.batch = 8, .dropout = false});
  const GivenLosses losses(net);
  const auto train = [&](bool gives, bool shards) {
    std::vector<Trained> trained(2);
    LocalRanks ranks(2);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        const auto device = OpenCpu();
        const auto communicator = ranks.Join(rank, *device);
        Session session = Opened(gives ? losses.net() : net, *device, {.policy = "superneurons"},
                                 {.communicator = communicator.get(), .shard_optimizer = shards});
        for (uint64_t step = 0; step < 3; ++step) {
          const Batch batch = MakeBatch(2 * step + static_cast<uint64_t>(rank));
          if (gives) {
            REQUIRE(session.Forward(losses.FeedsOf(FeedsOf(MakeBatch(9)))).ok());
            REQUIRE(session.SkipBackward().ok());
            losses.Step(session, FeedsOf(batch), /*batches=*/2);
          } else {
            REQUIRE(session.TrainStep(batch).ok());
          }
        }
        const std::vector<NamedTensor> weights = session.Weights().value();
        for (const NamedTensor& tensor : weights)
          trained[static_cast<size_t>(rank)].push_back(tensor.values);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return trained;
  };
  for (const bool shards : {false, true}) {
    CAPTURE(shards);
    const std::vector<Trained> given = train(true, shards), with_loss = train(false, shards);
    for (size_t rank = 0; rank < 2; ++rank) CHECK(AreSame(given[rank], with_loss[rank]));
  }
}

}  // namespace neap::pause_test
