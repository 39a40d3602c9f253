// Residual branches whose end, or whose last convolution, is a part of the sum behind it.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "neap/core/program/fuse.h"
#include "neap/core/program/passes.h"
#include "neap/core/step/operands.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/fusion/residual_convolution.h"
#include "neap/layers/fusion/residual_tail.h"
#include "neap/layers/fusion/rules.h"
#include "neap/layers/join.h"
#include "neap/layers/scale_shift.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "tests/core/program/fused_layers.h"

namespace neap {
namespace {

using testing::FusedNet;
using testing::kConvolution;

constexpr ScaleShift kLayerScale = {.scale = 1e-6F, .learns_scale = true};
constexpr StochasticDepth kDrop = {.rate = 0.3F};

// A branch of a convolution and these layers, and its sum with what it bypasses.
std::string Branch(FusedNet& net, const std::vector<Layer>& layers) {
  const std::string x = net.Add("conv1", kConvolution, {net.input});
  std::string y = net.Add("conv2", kConvolution, {x});
  for (const Layer& layer : layers) y = net.Add(std::string(layer.type()), layer, {y});
  return net.Add("add", Add{}, {y, x});
}
std::string FusedBranch(const std::vector<Layer>& layers, Mode mode = Mode::kTraining) {
  FusedNet net;
  return net.Fused(Branch(net, layers), mode);
}

TEST_CASE("the scale and the drop at the end of a residual branch are a part of the sum") {
  for (Mode mode : {Mode::kTraining, Mode::kInference}) {
    CHECK(FusedBranch({kLayerScale, kDrop}, mode) ==
          "conv1(input) conv2(conv1) scale_shift+scale+drop+add(conv2,conv1)");
    CHECK(FusedBranch({ScaleShift{.scale = 0.1F, .shift = 2}}, mode) ==
          "conv1(input) conv2(conv1) scale_shift+scale+add(conv2,conv1)");
    CHECK(FusedBranch({kDrop}, mode) ==
          "conv1(input) conv2(conv1) stochastic_depth+drop+add(conv2,conv1)");
  }
  CHECK(FusedBranch({kDrop, kLayerScale}) ==
        "conv1(input) conv2(conv1) stochastic_depth(conv2)"
        " scale_shift+scale+add(stochastic_depth,conv1)");
  CHECK(FusedBranch({ScaleShift{.learns_shift = true}}) ==
        "conv1(input) conv2(conv1) scale_shift(conv2) add(scale_shift,conv1)");
  CHECK(FusedBranch({Dropout{0.5F}}) ==
        "conv1(input) conv2(conv1) dropout(conv2) add(dropout,conv1)");
}

TEST_CASE("a sum of three, or with what a later layer reads, stays apart from a drop before it") {
  FusedNet three;
  const std::string x = three.Add("conv", kConvolution, {three.input});
  const std::string tanh = three.Add("tanh", Tanh{}, {x});
  const std::string drop = three.Add("drop", kDrop, {three.Add("conv2", kConvolution, {x})});
  CHECK(three.Fused(three.Add("add", Add{}, {drop, x, tanh})) ==
        "conv(input) tanh(conv) conv2(conv) drop(conv2) add(drop,conv,tanh)");
  FusedNet later;
  std::string y = Branch(later, {kDrop});
  y = later.Add("late", Add{}, {later.Add("tanh", Tanh{}, {y}), "conv1"});
  CHECK(later.Fused(y) ==
        "conv1(input) conv2(conv1) stochastic_depth(conv2) add(stochastic_depth,conv1) tanh(add)"
        " late(tanh,conv1)");
}

TEST_CASE("the end of a residual branch draws the random numbers of its stochastic depth") {
  for (const std::vector<Layer>& layers :
       std::vector<std::vector<Layer>>{{kDrop}, {kLayerScale, kDrop}}) {
    FusedNet net;
    net.Fused(Branch(net, layers));
    const ResolvedGraph plain = Resolve(net.graph, Mode::kTraining).value();
    const auto seed_of = [](const ResolvedGraph& graph) {
      std::optional<uint64_t> seed;
      const Program program = BuildProgram(graph, {}).value();
      for (const Step& step : program.steps) {
        const uint64_t own = program.Signature(step).layer_seed;
        if (own != 0) seed = own;
      }
      return seed;
    };
    REQUIRE(seed_of(plain).has_value());
    CHECK(seed_of(Fuse(plain, Mode::kTraining, CpuRules())) == seed_of(plain));
  }
}

TEST_CASE("the steps of the end of a residual branch, whose gradient is that of what it bypasses") {
  using namespace operands;
  const TensorSpec x = {.shape = {2, 5, 4, 4}};
  const Layer both = ResidualTail{.scale = kLayerScale, .drop = kDrop};
  const LayerSpec spec = both.Specify({.inputs = {x, x}}).value();
  CHECK(spec.passes_linear_grad == 1);
  REQUIRE(spec.steps.size() == 2);
  CHECK(spec.steps[0].reads == std::vector<Operand>{X(0), X(1), Param(0), Iteration()});
  CHECK(spec.steps[1].reads == std::vector<Operand>{X(0), Param(0), Dy(), Iteration()});
  CHECK(spec.steps[1].writes == std::vector<Operand>{Dx(0), ParamGrad(0)});
  for (const StepSpec& step : spec.steps) CHECK(step.depends_on_part);
  const Layer drop = ResidualTail{.drop = kDrop};
  const LayerSpec dropped = drop.Specify({.inputs = {x, x}, .mode = Mode::kInference}).value();
  REQUIRE(dropped.steps.size() == 1);
  CHECK(dropped.steps[0].reads == std::vector<Operand>{X(0), X(1)});
  for (const Layer& refused :
       {Layer(ResidualTail{}), Layer(ResidualTail{.scale = ScaleShift{.learns_shift = true}})})
    CHECK(absl::IsInvalidArgument(refused.Specify({.inputs = {x, x}}).status()));
  const TensorSpec other = {.shape = {2, 5, 1, 1}};
  CHECK(absl::IsInvalidArgument(both.Specify({.inputs = {x, other}}).status()));
}

// The layer called "conv2" of a network with the rules of GPUs; null if there is none.
std::optional<Layer> SecondConvolution(const Convolution& convolution, Layout layout) {
  Graph net({.name = "net", .batch = 2, .layout = layout});
  const std::string x = net.Add("conv1", kConvolution, {net.Input({3, 4, 4})});
  const std::string y = net.Add("conv2", convolution, {net.Add("tanh", Tanh{}, {x})});
  const std::string sum = net.Add("add", Add{}, {y, x});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {sum}), SoftmaxCrossEntropy{});
  const ResolvedGraph fused =
      Fuse(Resolve(net, Mode::kTraining).value(), Mode::kTraining, GpuRules());
  for (const ResolvedLayer& layer : fused.layers) {
    if (layer.name == "conv2") return layer.layer;
  }
  return std::nullopt;
}

TEST_CASE("on a GPU a 1x1 convolution with channels last computes the sum behind it") {
  for (const bool bias : {true, false}) {
    CAPTURE(bias);
    const Convolution convolution = {.out_channels = 3, .bias = bias};
    CHECK(SecondConvolution(convolution, Layout::kChannelsLast) ==
          Layer(ResidualConvolution{.out_channels = 3, .bias = bias}));
    CHECK(SecondConvolution(convolution, Layout::kChannelsFirst) == Layer(convolution));
    const Convolution wide = {.out_channels = 3, .kernel = 3, .padding = 1, .bias = bias};
    CHECK(SecondConvolution(wide, Layout::kChannelsLast) == Layer(wide));
  }
}

TEST_CASE("the steps of a convolution and the sum behind it") {
  using namespace operands;
  const Layer layer = ResidualConvolution{.out_channels = 3};
  const TensorSpec x = {.shape = {2, 5, 4, 4}, .layout = Layout::kChannelsLast};
  const TensorSpec y = {.shape = {2, 3, 4, 4}, .layout = Layout::kChannelsLast};
  const LayerSpec spec = layer.Specify({.inputs = {x, y}}).value();
  CHECK(spec.output == y);
  CHECK(spec.passes_linear_grad == 1);
  REQUIRE(spec.steps.size() == 3);
  CHECK(spec.steps[0].reads == std::vector<Operand>{X(0), X(1), Param(0), Param(1)});
  CHECK(spec.steps[0].in_place.empty());
  CHECK(spec.steps[1].reads == std::vector<Operand>{X(0), Dy()});
  CHECK(spec.steps[2].reads == std::vector<Operand>{Dy(), Param(0)});
  CHECK(absl::IsInvalidArgument(layer.Specify({.inputs = {x, x}}).status()));
  const TensorSpec first = {.shape = {2, 5, 4, 4}}, first_y = {.shape = {2, 3, 4, 4}};
  CHECK(absl::IsInvalidArgument(layer.Specify({.inputs = {first, first_y}}).status()));
}

}  // namespace
}  // namespace neap
