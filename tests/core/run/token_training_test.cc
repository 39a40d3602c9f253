// Training of networks of ids: a small language model learns, all plans train it to the same bits,
// and what is fed is checked.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "neap/core/program/feeds.h"
#include "neap/core/run/session.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/join.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/tokens/embedding.h"
#include "neap/layers/tokens/linear_cross_entropy.h"
#include "neap/layers/tokens/position_embedding.h"
#include "tests/core/run/random_training.h"
#include "tests/random_seeds.h"
#include "tests/random_tokens.h"
#include "tests/small_training.h"

namespace neap::token_training_test {

using testing::CheckPlans;
using testing::RandomTokenGraph;
using testing::TrainedState;
using testing::TrainRandom;

namespace {

constexpr int64_t kTokenBatch = 4, kPositions = 12, kVocabulary = 17, kChannels = 16;

enum class Head { kLinearCrossEntropy, kConvolution };

// GPT without attention, with the weight of the embedding in the last layer.
Graph SmallGpt(DType dtype = DType::kFp32, Head head = Head::kLinearCrossEntropy) {
  Graph net({.name = "gpt", .batch = kTokenBatch, .dtype = dtype, .layout = Layout::kChannelsLast});
  net.Input("ids", {kPositions}, DType::kInt32);
  net.Input("next", {kPositions}, DType::kInt32);
  Embedding table = {.vocabulary = kVocabulary, .channels = kChannels};
  table.init.scale = 0.1F;
  std::string x = net.Add("wte", table, {"ids"});
  x = net.Add("wpe", PositionEmbedding{}, {x});
  for (const std::string block : {"0", "1"}) {
    std::string y = net.Add("norm" + block, LayerNorm{}, {x});
    y = net.Add("up" + block, Convolution{.out_channels = 4 * kChannels}, {y});
    y = net.Add("gelu" + block, Gelu{}, {y});
    y = net.Add("down" + block, Convolution{.out_channels = kChannels}, {y});
    x = net.Add("add" + block, Add{}, {x, y});
  }
  x = net.Add("norm", LayerNorm{}, {x});
  if (head == Head::kLinearCrossEntropy) {
    net.Loss("loss", LinearCrossEntropy{.classes = kVocabulary}, {x, "next"});
    net.Share("loss.weight", "wte.weight");
  } else {
    net.Add("logits", Convolution{.out_channels = kVocabulary, .bias = false}, {x});
    net.Share("logits.weight", "wte.weight");
    net.Loss("loss", SoftmaxCrossEntropy{}, {"logits", "next"});
  }
  return net;
}

// Sequences in which the id after i is 3 i + 1, modulo the vocabulary.
struct Text {
  std::vector<int32_t> ids, next;
  explicit Text(int step) {
    for (int64_t i = 0; i < kTokenBatch; ++i) {
      int64_t id = (5 * step + 7 * i) % kVocabulary;
      for (int64_t t = 0; t < kPositions; ++t) {
        ids.push_back(static_cast<int32_t>(id));
        id = (3 * id + 1) % kVocabulary;
        next.push_back(static_cast<int32_t>(id));
      }
    }
  }
  Feeds feeds() const {
    return {{.name = "ids", .integers = ids}, {.name = "next", .integers = next}};
  }
};

StepResult StepOn(Session& session, const Text& text) {
  absl::StatusOr<StepResult> result = session.Step(text.feeds());
  REQUIRE_MESSAGE(result.ok(), result.status().ToString());
  return *std::move(result);
}

constexpr TrainingOptions kTokenTraining = {.optimizer = {.rule = Optimizer::Rule::kAdamW},
                                            .learning_rate = {.base = 0.01F}};

TEST_CASE("a small language model learns to tell the next id") {
  const auto device = OpenCpu();
  for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
    CAPTURE(Name(dtype));
    Session session = Opened(SmallGpt(dtype), *device, {}, kTokenTraining);
    const float first = StepOn(session, Text(0)).loss;
    CHECK(first > 2);
    StepResult last;
    for (int step = 1; step < 80; ++step) last = StepOn(session, Text(step));
    CHECK(last.loss < 0.2F * first);
    CHECK(last.losses.at(0).correct > kTokenBatch * kPositions * 9 / 10);
  }
}

TEST_CASE("a linear cross-entropy trains as a convolution and a softmax cross-entropy do") {
  const auto device = OpenCpu();
  Session fused = Opened(SmallGpt(), *device, {}, kTokenTraining);
  Session apart = Opened(SmallGpt(DType::kFp32, Head::kConvolution), *device, {}, kTokenTraining);
  for (int step = 0; step < 5; ++step) {
    const StepResult got = StepOn(fused, Text(step)), want = StepOn(apart, Text(step));
    CHECK(got.loss == doctest::Approx(want.loss).epsilon(1e-3));
    CHECK(got.losses.at(0).correct == want.losses.at(0).correct);
  }
}

TEST_CASE("sub-batches of a language model have the gradients of the whole batch") {
  const auto device = OpenCpu();
  Session whole = Opened(SmallGpt(), *device, {}, kTokenTraining);
  Session parts = Opened(SmallGpt(), *device, {.sub_batches = 3}, kTokenTraining);
  for (int step = 0; step < 5; ++step) {
    CHECK(StepOn(parts, Text(step)).loss ==
          doctest::Approx(StepOn(whole, Text(step)).loss).epsilon(1e-3));
  }
}

TEST_CASE("evaluation has the loss of the next step, and means over the labels that there are") {
  const auto device = OpenCpu();
  Session session = Opened(SmallGpt(), *device, {}, kTokenTraining);
  Text text(3);
  const float evaluated = session.Evaluate(text.feeds())->loss;
  for (size_t i = 0; i < text.next.size(); i += 2) text.next[i] = kNoLabel;
  const float of_half = session.Evaluate(text.feeds())->loss;
  const float stepped = StepOn(session, text).loss;  // the mean over all labels
  CHECK(stepped == doctest::Approx(of_half / 2));
  Session other = Opened(SmallGpt(), *device, {}, kTokenTraining);
  CHECK(StepOn(other, Text(3)).loss == doctest::Approx(evaluated));
}

TEST_CASE("ids and labels that no layer knows are refused with their place") {
  const auto device = OpenCpu();
  Session session = Opened(SmallGpt(), *device, {}, kTokenTraining);
  const auto refused = [&](const Text& text) {
    const absl::Status status = session.Step(text.feeds()).status();
    CHECK(absl::IsInvalidArgument(status));
    return std::string(status.message());
  };
  Text text(0);
  text.ids[kPositions + 2] = kVocabulary;
  CHECK(refused(text) ==
        "feed 'ids' has 17 for position 2 of sequence 1; a layer that reads it knows 17, from 0");
  text = Text(0);
  text.ids[0] = -1;
  CHECK(refused(text) ==
        "feed 'ids' has -1 for position 0 of sequence 0; a layer that reads it knows 17, from 0");
  text = Text(0);
  text.next[1] = kVocabulary;
  CHECK(refused(text) ==
        "the batch labels position 1 of sequence 0 with 17; the network has 17 classes, from 0");
}

TEST_CASE("a small language model trains to the same bits under every plan") {
  const auto device = OpenCpu();
  for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
    CAPTURE(Name(dtype));
    const TrainedState reference =
        TrainRandom(SmallGpt(dtype), *device, {.policy = "keep-all", .in_place = false}, nullptr);
    CheckPlans(SmallGpt(dtype), *device, reference);
  }
}

TEST_CASE("random networks of ids train to the same bits whatever the plan") {
  constexpr DType kTypes[] = {DType::kFp32, DType::kBf16, DType::kFp16};
  const auto device = OpenCpu();
  const uint32_t seeds = testing::RandomSeeds(30);
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    testing::RandomTokenOptions of = {.dtype = kTypes[seed % 3]};
    if (seed / 3 % 2 == 1) of.layout = Layout::kChannelsLast;
    const Graph graph = RandomTokenGraph(seed, of);
    of.fusion = false;
    const TrainedState reference = TrainRandom(RandomTokenGraph(seed, of), *device,
                                               {.policy = "keep-all", .in_place = false}, nullptr);
    for (const float loss : reference.at("loss")) REQUIRE(std::isfinite(loss));
    CheckPlans(graph, *device, reference);
  }
}

}  // namespace
}  // namespace neap::token_training_test
