// Convolutions that compute the ReLU behind them, or whose bias moves into a pooled ReLU or a norm.
#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "neap/core/base/status_macros.h"
#include "neap/core/program/fuse.h"
#include "neap/core/program/passes.h"
#include "neap/core/step/operands.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/fusion/biased_gelu.h"
#include "neap/layers/fusion/fused_convolution.h"
#include "neap/layers/fusion/rules.h"
#include "neap/layers/join.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap {
namespace {

TEST_CASE("on a GPU a convolution computes the ReLU that alone reads its output") {
  for (const bool bias : {true, false}) {
    CAPTURE(bias);
    Graph net({.name = "net", .batch = 2});
    const Convolution convolution = {.out_channels = 3, .kernel = 1, .bias = bias};
    std::string x = net.Add("conv", convolution, {net.Input({3, 4, 4})});
    x = net.Add("relu", Relu{}, {x});
    net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
    const ResolvedGraph plain = Resolve(net, Mode::kTraining).value();
    CHECK(Fuse(plain, Mode::kTraining, CpuRules()).layers.size() == plain.layers.size());
    const ResolvedGraph fused = Fuse(plain, Mode::kTraining, GpuRules());
    REQUIRE(fused.layers.size() == plain.layers.size() - 1);
    const ResolvedLayer& layer = fused.layers[fused.layers.back().inputs[0].layer.index() - 1];
    CHECK(layer.name == "conv");
    CHECK(layer.layer == Layer(FusedConvolution{convolution}));
    DeviceDescription gpu;
    gpu.rules = GpuRules();
    CHECK(Lower(net, {}, gpu).value() == BuildProgram(fused, ProgramOptions{}).value());
    CHECK(Lower(net, {}, {}).value() == BuildProgram(net, {}).value());
  }
}

TEST_CASE("on a GPU the bias of a convolution moves into a pooled ReLU") {
  Graph net({.name = "net", .batch = 2});
  std::string x =
      net.Add("conv", Convolution{.out_channels = 3, .kernel = 1}, {net.Input({3, 4, 4})});
  x = net.Add("pool", MaxPool{.kernel = 2, .stride = 2}, {net.Add("relu", Relu{}, {x})});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  const ResolvedGraph fused =
      Fuse(Resolve(net, Mode::kTraining).value(), Mode::kTraining, GpuRules());
  const Program program = BuildProgram(fused, ProgramOptions{}).value();
  std::vector<std::string> trained;
  for (const Tensor& tensor : program.tensors) {
    if (tensor.role == Role::kParam || tensor.role == Role::kParamGrad)
      trained.push_back(tensor.name);
  }
  CHECK(trained == std::vector<std::string>{"conv.weight", "conv.bias", "fc.weight", "fc.bias",
                                            "fc.weight.grad", "fc.bias.grad", "conv.bias.grad",
                                            "conv.weight.grad"});
}

TEST_CASE("on a GPU the bias of a convolution moves into the GELU that alone reads its output") {
  for (const bool bias : {true, false}) {
    CAPTURE(bias);
    Graph net({.name = "net", .batch = 2});
    const Convolution convolution = {.out_channels = 3, .kernel = 1, .bias = bias};
    const Gelu gelu = {Gelu::Approximation::kTanh};
    const std::string z = net.Add("conv", convolution, {net.Input({3, 4, 4})});
    net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {net.Add("gelu", gelu, {z})}),
             SoftmaxCrossEntropy{});
    const ResolvedGraph plain = Resolve(net, Mode::kTraining).value();
    const ResolvedGraph on_cpu = Fuse(plain, Mode::kTraining, CpuRules());
    const ResolvedGraph fused = Fuse(plain, Mode::kTraining, GpuRules());
    REQUIRE(fused.layers.size() == plain.layers.size());
    const auto layer = [](const ResolvedGraph& graph, const std::string& name) {
      return std::find_if(graph.layers.begin(), graph.layers.end(),
                          [&](const ResolvedLayer& each) { return each.name == name; })
          ->layer;
    };
    CHECK(layer(on_cpu, "gelu") == Layer(gelu));
    CHECK(layer(fused, "conv") == Layer(Convolution{.out_channels = 3, .bias = false}));
    CHECK(layer(fused, "gelu") == (bias ? Layer(BiasedGelu{gelu}) : Layer(gelu)));
    std::vector<std::string> trained;
    const Program program = BuildProgram(fused, ProgramOptions{}).value();
    for (const Tensor& tensor : program.tensors) {
      if (tensor.role == Role::kParam) trained.push_back(tensor.name);
    }
    CHECK(trained.size() == (bias ? 4 : 3));
    CHECK(std::count(trained.begin(), trained.end(), "conv.bias") == (bias ? 1 : 0));
  }
}

TEST_CASE("on a GPU the bias of a convolution moves into an instance norm, which takes it away") {
  for (const bool activates : {false, true}) {
    for (const bool affine : {false, true}) {
      CAPTURE(activates);
      CAPTURE(affine);
      Graph net({.name = "net", .batch = 2});
      std::string x =
          net.Add("conv", Convolution{.out_channels = 3, .kernel = 1}, {net.Input({3, 4, 4})});
      x = net.Add("norm", InstanceNorm{.affine = affine}, {x});
      if (activates) x = net.Add("relu", LeakyRelu{}, {x});
      net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
      const ResolvedGraph resolved = Resolve(net, Mode::kTraining).value();
      const ResolvedGraph fused = Fuse(resolved, Mode::kTraining, GpuRules());
      const auto convolution = std::find_if(
          fused.layers.begin(), fused.layers.end(),
          [](const ResolvedLayer& layer) { return layer.layer.As<Convolution>() != nullptr; });
      REQUIRE(convolution != fused.layers.end());
      CHECK(convolution->layer.As<Convolution>()->bias == !affine);
      const auto params_of = [](const ResolvedGraph& graph) {
        std::set<std::string> names;
        const Program program = BuildProgram(graph, ProgramOptions{}).value();
        for (const Tensor& tensor : program.tensors) {
          if (tensor.role == Role::kParam || tensor.role == Role::kParamGrad)
            names.insert(tensor.name);
        }
        return names;
      };
      CHECK(params_of(fused) == params_of(resolved));
    }
  }
}

TEST_CASE("the steps of a convolution with a ReLU") {
  const Layer layer = FusedConvolution{{.out_channels = 3, .kernel = 1}};
  const LayerContext context = {.inputs = {{.shape = {2, 5, 4, 4}}}};
  const LayerSpec spec = layer.Specify(context).value();
  REQUIRE(spec.steps.size() == 4);
  const StepSpec &activation = spec.steps[1], &params = spec.steps[2], &data = spec.steps[3];
  using namespace operands;
  CHECK(activation.phase == Phase::kBackwardActivation);
  CHECK(activation.reads == std::vector<Operand>{Y(), Dy()});
  CHECK(activation.writes == std::vector<Operand>{Dz(), ParamGrad(1)});
  CHECK(params.reads == std::vector<Operand>{X(), Dz()});
  CHECK(params.writes == std::vector<Operand>{ParamGrad(0)});
  CHECK(data.reads == std::vector<Operand>{Dz(), Param(0)});
  for (const StepSpec& step : spec.steps) {
    const StepSignature signature = SignatureOf(step, layer, spec, context);
    CHECK(IsDivisible(signature) == (step.phase != Phase::kBackwardActivation));
  }
}

TEST_CASE("a convolution stays as it is if something else reads its output or follows it") {
  Graph net({.name = "net", .batch = 2});
  const std::string conv =
      net.Add("conv", Convolution{.out_channels = 3, .kernel = 1}, {net.Input({3, 4, 4})});
  const std::string relu = net.Add("relu", Relu{}, {conv});
  const std::string sum = net.Add("sum", Add{}, {conv, relu});
  const std::string other = net.Add("other", Convolution{.out_channels = 3, .kernel = 1}, {sum});
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {net.Add("tanh", Tanh{}, {other})}),
           SoftmaxCrossEntropy{});
  const ResolvedGraph plain = Resolve(net, Mode::kTraining).value();
  const ResolvedGraph fused = Fuse(plain, Mode::kTraining, GpuRules());
  for (size_t i = 0; i < plain.layers.size(); ++i)
    CHECK(fused.layers[i].layer == plain.layers[i].layer);
}

// A user's layer that is run in parts of the batch, and can compute a ReLU.
struct OwnLinear {
  static constexpr std::string_view kType = "own_linear";
  bool relu = false;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const {
    ASSIGN_OR_RETURN(LayerSpec spec, Convolution{.out_channels = 3}.Specify(context));
    spec.traits = {.checkpoint = true, .divisible = true};
    return spec;
  }
  std::string Parameters() const { return relu ? "relu=true" : "relu=false"; }
  friend bool operator==(const OwnLinear&, const OwnLinear&) = default;
};

std::optional<Layer> OwnLinearRelu(const OwnLinear& linear, const Relu& /*relu*/, int /*input*/) {
  if (linear.relu) return std::nullopt;
  return OwnLinear{.relu = true};
}

TEST_CASE("a row of a user's own fuses the user's layer, on every device that has it") {
  Graph net({.name = "net", .batch = 2});
  const std::string x = net.Add("own", OwnLinear{}, {net.Input({3, 4, 4})});
  const std::string y = net.Add("fc", FullyConnected{4}, {net.Add("relu", Relu{}, {x})});
  net.Loss(y, SoftmaxCrossEntropy{});
  const ResolvedGraph plain = Resolve(net, Mode::kTraining).value();
  for (RewriteRules rules : {RewriteRules{}, CpuRules(), GpuRules()}) {
    CHECK(Fuse(plain, Mode::kTraining, rules).layers.size() == plain.layers.size());
    rules.Append({.fusions = {FusionOf<&OwnLinearRelu>()}});
    const ResolvedGraph fused = Fuse(plain, Mode::kTraining, rules);
    CHECK(fused.layers.size() == plain.layers.size() - 1);
    CHECK(std::any_of(fused.layers.begin(), fused.layers.end(), [](const ResolvedLayer& layer) {
      return layer.layer == Layer(OwnLinear{.relu = true});
    }));
  }
}

}  // namespace
}  // namespace neap
