// Training of networks with layers of several outputs, under all plans.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "neap/core/run/session.h"
#include "neap/layers/channel_split.h"
#include "neap/layers/fully_connected.h"
#include "neap/memory/create_session.h"
#include "neap/memory/policies/policies.h"
#include "tests/core/run/gated_net.h"
#include "tests/core/run/random_training.h"
#include "tests/given_gradients.h"
#include "tests/random_graph.h"
#include "tests/random_splits.h"
#include "tests/small_training.h"

namespace neap::several_outputs_test {

using testing::CheckSameParameters;
using testing::GatedNet;
using testing::Halving;
using testing::RandomGraph;
using testing::TrainedState;
using testing::TrainRandom;
using testing::WithSplits;

namespace {

std::vector<float> LossesOf(Session& session, int steps) {
  std::vector<float> losses;
  for (int step = 0; step < steps; ++step) losses.push_back(Train(session, 1));
  return losses;
}

TEST_CASE("a split trains as slices of each part, by any policy, type and number of sub-batches") {
  const auto device = OpenCpu();
  for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
    CAPTURE(Name(dtype));
    const Graph slices = GatedNet({.dtype = dtype, .halving = Halving::kSlices});
    const Graph split = GatedNet({.dtype = dtype});
    Session by_slices = Opened(slices, *device, {.policy = "keep-all"});
    const std::vector<float> losses = LossesOf(by_slices, 3);
    for (const Policy& policy : Policies()) {
      CAPTURE(policy.name);
      PlannerOptions planning = {.policy = std::string(policy.name)};
      for (int run = 0; run < 2; ++run) {  // the second one in the smallest budget
        Session session = Opened(split, *device, planning);
        CHECK(LossesOf(session, 3) == losses);
        CheckSameParameters(session, by_slices);
        planning.budget_bytes = session.planning().minimum_budget_bytes;
      }
    }
    Session parts = Opened(split, *device, {.policy = "superneurons", .sub_batches = 4});
    Session slices_in_parts = Opened(slices, *device, {.policy = "keep-all", .sub_batches = 4});
    CHECK(LossesOf(parts, 3) == LossesOf(slices_in_parts, 3));
    CheckSameParameters(parts, slices_in_parts);
  }
}

TEST_CASE("every output is a result of its own, in training and in evaluation") {
  const auto device = OpenCpu();
  Graph net = GatedNet();
  net.Output("b.halves:1");
  net.Output("b.halves");
  net.Output("b.conv");
  Session session = Opened(net, *device, {.policy = "superneurons"});
  const std::vector<NamedTensor> evaluated = session.Evaluate(MakeBatch(0))->outputs;
  const std::vector<NamedTensor> trained = session.Step(MakeBatch(0))->outputs;
  for (const std::vector<NamedTensor>& outputs : {evaluated, trained}) {
    REQUIRE(outputs.size() == 3);
    std::vector<std::vector<float>> values(3);  // conv, first half, second half
    for (const NamedTensor& output : outputs) {
      const size_t at = output.name == "b.conv" ? 0 : output.name == "b.halves" ? 1 : 2;
      values[at] = output.values;
      CHECK(output.shape == Shape{8, at == 0 ? 8 : 4, 8, 8});
    }
    for (size_t i = 0; i < values[0].size(); ++i) {
      const size_t image = i / (8 * 64), channel = i / 64 % 8, pixel = i % 64;
      const size_t in_half = (image * 4 + channel % 4) * 64 + pixel;
      CHECK(values[0][i] == values[channel < 4 ? 1 : 2][in_half]);
    }
  }
}

TEST_CASE("gradients that the caller gives of some outputs arrive in their channels alone") {
  const auto device = OpenCpu();
  for (const bool gives_second : {false, true}) {
    CAPTURE(gives_second);
    Graph net({.name = "net", .batch = 2});
    net.Input("x", {3, 1, 1});
    net.Add("fc", FullyConnected{.out_features = 5}, {"x"});
    net.Add("parts", ChannelSplit{.channels = {2, 3}}, {"fc"});
    net.OutputWithGradient(gives_second ? "parts:1" : "parts");
    Session session =
        Opened(net, *device, {},
               {.optimizer = {.momentum = 0, .weight_decay = 0}, .learning_rate = {.base = 0.5F}});
    const std::vector<float> x = {1, 2, 4, 8, -1, 2}, given = {1, -2, 0.5F, 4, 3, -1};
    const size_t first = gives_second ? 2 : 0, count = gives_second ? 3 : 2;
    std::vector<float> weight = session.Values("fc.weight").value();
    REQUIRE(session.Forward({{.name = "x", .floats = x}}).ok());
    const absl::Span<const float> gradient = absl::MakeConstSpan(given).first(2 * count);
    REQUIRE(
        session.Backward({{.name = gives_second ? "parts:1" : "parts", .floats = gradient}}).ok());
    for (size_t k = 0; k < count; ++k) {
      for (size_t c = 0; c < 3; ++c)
        weight[(first + k) * 3 + c] -= 0.5F * (gradient[k] * x[c] + gradient[count + k] * x[3 + c]);
    }
    const std::vector<float> after = session.Values("fc.weight").value();
    for (size_t i = 0; i < weight.size(); ++i) CHECK(after[i] == doctest::Approx(weight[i]));
  }
}

TEST_CASE("random networks with splits train to the same bits whatever the plan") {
  const auto device = OpenCpu();
  constexpr DType kTypes[] = {DType::kFp32, DType::kBf16, DType::kFp16};
  const uint32_t seeds = testing::RandomSeeds(60);
  int splits = 0;
  for (uint32_t seed = 0; seed < seeds; ++seed) {
    CAPTURE(seed);
    testing::RandomGraphOptions of;
    of.axes = seed % 5 == 4 ? 1 : 2;
    of.dtype = kTypes[seed / 2 % 3];
    if (seed / 4 % 2 == 1) of.layout = Layout::kChannelsLast;
    const uint32_t kind = seed / 3 % 4;
    of.residual = kind == 1;
    of.dense = kind == 2;
    of.mobile = kind == 3;
    of.ports = seed % 2 == 1;
    of.shares = seed % 3 == 1;
    const Graph graph = WithSplits(RandomGraph(seed, of), seed);
    for (const GraphLayer& layer : graph.layers()) splits += layer.layer.type() == "channel_split";
    of.fusion = false;
    const Graph unfused = WithSplits(RandomGraph(seed, of), seed);
    const TrainedState reference =
        TrainRandom(unfused, *device, {.policy = "keep-all", .in_place = false}, nullptr);
    for (float loss : reference.at("loss")) REQUIRE(std::isfinite(loss));
    testing::CheckPlans(graph, *device, reference);
  }
  CHECK(splits >= static_cast<int>(seeds) / 2);
}

}  // namespace
}  // namespace neap::several_outputs_test
