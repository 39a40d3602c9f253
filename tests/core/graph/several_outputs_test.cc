// How a graph names the outputs of layers that have several, and what it refuses.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "neap/core/graph/graph.h"
#include "neap/core/step/operands.h"
#include "neap/layers/activation.h"
#include "neap/layers/channel_split.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/multiply.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap {
namespace {

using namespace operands;

// A gated linear unit, whose parts are read in this order.
Graph Gated(const std::string& value = "halves", const std::string& gate = "halves:1") {
  Graph net({.name = "gated", .batch = 2});
  net.Add("halves", ChannelSplit{.channels = {3, 3}}, {net.Input({6, 4, 4})});
  net.Add("gate", Sigmoid{}, {gate});
  net.Add("product", Multiply{}, {value, "gate"});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 2}, {"product"}), SoftmaxCrossEntropy{});
  return net;
}

std::string RefusalOf(const Graph& graph) {
  const auto resolved = Resolve(graph, Mode::kTraining);
  REQUIRE(resolved.status().code() == absl::StatusCode::kInvalidArgument);
  return std::string(resolved.status().message());
}

TEST_CASE("inputs name an output by its layer and its index") {
  CHECK(OutputName("halves", 0) == "halves");
  CHECK(OutputName("halves", 12) == "halves:12");
  const ResolvedGraph resolved = Resolve(Gated(), Mode::kTraining).value();
  const ResolvedLayer& split = resolved.layers[1];
  REQUIRE(split.spec.output_count() == 2);
  CHECK(split.spec.OutputSpec(1).shape == Shape{2, 3, 4, 4});
  CHECK(resolved.layers[2].inputs == std::vector<LayerOutput>{{split.id, 1}});
  CHECK(resolved.layers[3].inputs ==
        std::vector<LayerOutput>{{split.id, 0}, {resolved.layers[2].id, 0}});
  CHECK(resolved.NameOf({split.id, 1}) == "halves:1");
}

TEST_CASE("an output that the layer does not have is named") {
  CHECK(RefusalOf(Gated("halves", "halves:2")) ==
        "layer 'halves': its output 'halves:2' is read, but it has 2 outputs");
  for (const char* const wrong : {"halves:0", "halves:01", "halves:-1", "halves: 1", "halves:1x",
                                  "halves:", ":1", "halves:99999999999999999999", "halfes:1"}) {
    CAPTURE(wrong);
    CHECK(RefusalOf(Gated("halves", wrong)) ==
          "layer 'gate': input '" + std::string(wrong) + "' is not a layer");
  }
  Graph net = Gated();
  net.Output("gate:1");
  CHECK(RefusalOf(net) == "layer 'gate': its output 'gate:1' is read, but it has 1 output");
  net = Gated();
  net.Output("halves:x");
  CHECK(RefusalOf(net) == "output 'halves:x' is not a layer");
}

TEST_CASE("a layer may have a colon in its name, but not the name of another layer's output") {
  Graph net = Gated();
  net.Add("gate:1", Relu{}, {"gate"});
  net.Output("gate:1");
  CHECK(Resolve(net, Mode::kTraining).ok());
  net.Add("halves:1", Relu{}, {"halves"});
  CHECK(RefusalOf(net) == "layer 'halves:1': an output of 'halves' has this name");
}

TEST_CASE("outputs are results by their names") {
  Graph net = Gated();
  net.Output("halves:1");
  net.OutputWithGradient("halves");
  const ResolvedGraph resolved = Resolve(net, Mode::kInference).value();
  CHECK(resolved.layers[1].results ==
        std::vector<LayerResult>{{.name = "halves:1", .output = 1}, {.name = "halves"}});
  CHECK(RefusalOf(net) ==
        "layer 'halves': its gradient is to be given, but no parameter precedes it");
  net.Output("halves:1");
  CHECK(RefusalOf(net) == "output 'halves:1' is named twice");
}

TEST_CASE("one output that is read is enough, and none is too few") {
  CHECK(Resolve(Gated("halves:1", "halves:1"), Mode::kTraining).ok());
  Graph net({.name = "net", .batch = 2});
  net.Add("halves", ChannelSplit{.channels = {3, 3}}, {net.Input({6, 4, 4})});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 2}, {"input"}), SoftmaxCrossEntropy{});
  CHECK(RefusalOf(net) ==
        "layer 'halves': its output is unused (a loss or an output ends a network)");
}

TEST_CASE("a split has as many channels as its input, in parts of one or more") {
  const auto refusal = [](std::vector<int64_t> channels) {
    const auto spec =
        Layer(ChannelSplit{std::move(channels)}).Specify({.inputs = {{.shape = {2, 6, 4, 4}}}});
    return std::string(spec.status().message());
  };
  CHECK(refusal({1, 5}) == "");
  CHECK(refusal({6}) == "");
  CHECK(refusal({}) == "cannot split 6 channels into no parts");
  CHECK(refusal({3, 4}) == "cannot split 6 channels into 3 + 4");
  CHECK(refusal({3, 2}) == "cannot split 6 channels into 3 + 2");
  CHECK(refusal({6, 0}) == "cannot split 6 channels into 6 + 0");
  CHECK(refusal({7, -1}) == "cannot split 6 channels into 7 + -1");
}

// Two copies of the input, in steps that a test changes.
struct Twice {
  static constexpr std::string_view kType = "twice";
  LayerSpec spec;
  absl::StatusOr<LayerSpec> Specify(const LayerContext&) const { return spec; }
  std::string Parameters() const { return ""; }
  friend bool operator==(const Twice&, const Twice&) { return true; }
};

TEST_CASE("what is computed from the gradient of one output needs a layer with one") {
  const TensorSpec x = {.shape = {2, 6, 4, 4}};
  const LayerSpec good = {
      .output = x,
      .further_outputs = {x},
      .steps = {{.reads = {X()}, .writes = {Y(), Y(1)}},
                {.phase = Phase::kBackwardData, .reads = {Dy(), Dy(1)}, .writes = {Dx()}}}};
  const auto error = [&](const LayerSpec& spec) {
    Graph net({.name = "net", .batch = 2});
    net.Add("twice", Twice{spec}, {net.Input({6, 4, 4})});
    net.Loss(net.Add("fc", FullyConnected{.out_features = 2}, {"twice:1"}), SoftmaxCrossEntropy{});
    return std::string(Resolve(net, Mode::kTraining).status().message());
  };
  CHECK(error(good) == "");
  LayerSpec spec = good;
  spec.passes_gradient = true;
  CHECK(error(spec) == "layer 'twice': a layer with 2 outputs does not pass a gradient on");
  spec = good;
  spec.passes_linear_grad = 0;
  CHECK(error(spec) == "layer 'twice': a layer with 2 outputs does not pass a gradient on");
  spec = good;
  spec.steps[1].sums_output_grads = true;
  CHECK(error(spec) ==
        "layer 'twice': a layer with 2 outputs does not sum gradients of its output");
  spec = good;
  spec.steps[1].phase = Phase::kBackwardActivation;
  CHECK(error(spec) == "layer 'twice': a layer with 2 outputs has no backward_activation");
  spec = good;
  spec.steps[1].summed = {Dx()};
  CHECK(error(spec) == "layer 'twice': a layer with 2 outputs computes no sums over the ranks");
  spec = good;
  spec.steps[1].reads.push_back(Dy(2));
  CHECK(error(spec) ==
        "layer 'twice': its step 1, backward_data, reads output_grad[2], but the "
        "largest index is 1");
  spec = good;
  spec.steps[0].writes = {Y(), Y(1), Y(2)};
  CHECK(error(spec) ==
        "layer 'twice': its step 0, forward, writes output[2], but the largest index is 1");
  spec = good;
  spec.steps[0].writes = {Y()};
  CHECK(error(spec) == "layer 'twice': its forward step does not write output 1");
  spec = good;
  spec.further_outputs[0].shape = {2, 0, 4, 4};
  CHECK(error(spec) == "layer 'twice': its output 1 2x0x4x4 fp32 nchw has no elements");
}

}  // namespace
}  // namespace neap
