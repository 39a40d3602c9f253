// Training of networks with layers of several outputs, under all plans.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "neap/core/run/session.h"
#include "neap/layers/activation.h"
#include "neap/layers/channel_slice.h"
#include "neap/layers/channel_split.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/multiply.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/memory/create_session.h"
#include "neap/memory/policies/policies.h"
#include "tests/core/run/random_training.h"
#include "tests/given_gradients.h"
#include "tests/random_graph.h"
#include "tests/random_splits.h"
#include "tests/small_training.h"

namespace neap {
namespace {

using testing::RandomGraph;
using testing::TrainedState;
using testing::TrainRandom;
using testing::WithSplits;

// Two gated blocks: the convolution's channels are halved by `halve`, which names the halves.
template <typename Halve>
Graph GatedNet(DType dtype, const Halve& halve) {
  Graph net({.name = "gated", .batch = 8, .dtype = dtype});
  std::string x = net.Input({1, 6, 6});
  for (const char* const name : {"a", "b"}) {
    const Convolution conv = {.out_channels = 8, .kernel = 3, .padding = 1};
    x = net.Add(std::string(name) + ".conv", conv, {x});
    const auto [value, gate] = halve(net, std::string(name), x);
    const std::string opened = net.Add(std::string(name) + ".gate", Sigmoid{}, {gate});
    x = net.Add(std::string(name) + ".product", Multiply{}, {value, opened});
  }
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  return net;
}

std::pair<std::string, std::string> BySplit(Graph& net, const std::string& name,
                                            const std::string& x) {
  net.Add(name + ".halves", ChannelSplit{.channels = {4, 4}}, {x});
  return {name + ".halves", name + ".halves:1"};
}
std::pair<std::string, std::string> BySlices(Graph& net, const std::string& name,
                                             const std::string& x) {
  return {net.Add(name + ".first", ChannelSlice{.first = 0, .count = 4}, {x}),
          net.Add(name + ".second", ChannelSlice{.first = 4, .count = 4}, {x})};
}

Feeds FeedsOf(const Graph& net, int step) {
  Feeds feeds = {{.name = "input", .floats = {}}, {.name = "labels"}};
  static std::vector<float> images;
  static std::vector<int32_t> labels;
  images.resize(static_cast<size_t>(net.options().batch * 36));
  for (size_t i = 0; i < images.size(); ++i)
    images[i] = static_cast<float>((i * 29 + static_cast<size_t>(step) * 7) % 31) / 16 - 1;
  labels.resize(static_cast<size_t>(net.options().batch));
  for (size_t i = 0; i < labels.size(); ++i)
    labels[i] = static_cast<int32_t>((i + static_cast<size_t>(step)) % 4);
  feeds[0].floats = images;
  feeds[1].integers = labels;
  return feeds;
}

TEST_CASE("a split trains as slices of each part, by any policy, type and number of sub-batches") {
  const auto device = OpenCpu();
  for (const DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) {
    CAPTURE(Name(dtype));
    const Graph slices = GatedNet(dtype, BySlices), split = GatedNet(dtype, BySplit);
    Session by_slices = Opened(slices, *device, {.policy = "keep-all"});
    std::vector<float> losses;
    for (int step = 0; step < 3; ++step)
      losses.push_back(by_slices.Step(FeedsOf(slices, step))->loss);
    for (const Policy& policy : Policies()) {
      CAPTURE(policy.name);
      PlannerOptions planning = {.policy = std::string(policy.name)};
      for (int run = 0; run < 2; ++run) {  // the second one in the smallest budget
        Session session = Opened(split, *device, planning);
        for (int step = 0; step < 3; ++step)
          CHECK(session.Step(FeedsOf(split, step))->loss == losses[static_cast<size_t>(step)]);
        testing::CheckSameParameters(session, by_slices);
        planning.budget_bytes = session.planning().minimum_budget_bytes;
      }
    }
    Session parts = Opened(split, *device, {.policy = "superneurons", .sub_batches = 4});
    Session slices_in_parts = Opened(slices, *device, {.policy = "keep-all", .sub_batches = 4});
    for (int step = 0; step < 3; ++step) {
      CHECK(parts.Step(FeedsOf(split, step))->loss ==
            slices_in_parts.Step(FeedsOf(slices, step))->loss);
    }
    testing::CheckSameParameters(parts, slices_in_parts);
  }
}

TEST_CASE("every output is a result of its own, in training and in evaluation") {
  const auto device = OpenCpu();
  Graph net = GatedNet(DType::kFp32, BySplit);
  net.Output("b.halves:1");
  net.Output("b.halves");
  net.Output("b.conv");
  Session session = Opened(net, *device, {.policy = "superneurons"});
  const std::vector<NamedTensor> evaluated = session.Evaluate(FeedsOf(net, 0))->outputs;
  const std::vector<NamedTensor> trained = session.Step(FeedsOf(net, 0))->outputs;
  for (const std::vector<NamedTensor>& outputs : {evaluated, trained}) {
    REQUIRE(outputs.size() == 3);
    std::vector<std::vector<float>> values(3);  // conv, first half, second half
    for (const NamedTensor& output : outputs) {
      const size_t at = output.name == "b.conv" ? 0 : output.name == "b.halves" ? 1 : 2;
      values[at] = output.values;
      CHECK(output.shape == Shape{8, at == 0 ? 8 : 4, 6, 6});
    }
    for (size_t i = 0; i < values[0].size(); ++i) {
      const size_t image = i / (8 * 36), channel = i / 36 % 8, pixel = i % 36;
      const size_t in_half = (image * 4 + channel % 4) * 36 + pixel;
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
}  // namespace neap
