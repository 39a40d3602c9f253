// Batch norms that become a part of 1x1 convolutions.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "neap/core/program/fuse.h"
#include "neap/core/program/passes.h"
#include "neap/core/step/operands.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/channel_split.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/fusion/folded_convolution.h"
#include "neap/layers/fusion/norm_pass.h"
#include "neap/layers/fusion/rules.h"
#include "neap/layers/join.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/nets/residual/resnet.h"

namespace neap {
namespace {

using namespace operands;

GraphOptions Options(Layout layout = Layout::kChannelsLast) {
  return {.name = "net", .batch = 2, .layout = layout};
}

// convolution -> batch norm of `x`, with the names of a residual block.
std::string Normalised(Graph& net, const std::string& name, const Convolution& convolution,
                       const std::string& x) {
  return net.Add(name + ".bn", BatchNorm{}, {net.Add(name + ".conv", convolution, {x})});
}

void End(Graph& net, const std::string& x) {
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
}

ResolvedGraph Folded(const Graph& net) {
  return Fuse(Resolve(net, Mode::kTraining).value(), Mode::kTraining, GpuRules(), {.folds = true});
}

std::vector<const FoldedConvolution*> FoldedLayers(const ResolvedGraph& graph) {
  std::vector<const FoldedConvolution*> folded;
  for (const ResolvedLayer& layer : graph.layers) {
    if (const auto* const layer_of_two = layer.layer.As<FoldedConvolution>())
      folded.push_back(layer_of_two);
  }
  return folded;
}

const Convolution kWiden = {.out_channels = 8, .bias = false};
const Convolution kSame = {.out_channels = 8, .kernel = 3, .padding = 1};  // as high and wide

TEST_CASE("a 1x1 convolution takes up its batch norm, sum and ReLU") {
  for (const bool adds : {false, true}) {
    for (const bool relu : {false, true}) {
      CAPTURE(adds);
      CAPTURE(relu);
      Graph net(Options());
      const std::string images = net.Input({2, 8, 8});
      const std::string other = adds ? net.Add("other", kSame, {images}) : "";
      std::string x = Normalised(net, "block", kWiden, images);
      if (adds) x = net.Add("sum", Add{}, {x, other});
      if (relu) x = net.Add("relu", Relu{}, {x});
      End(net, x);
      const ResolvedGraph fused = Folded(net);
      const auto is_folded = [](const ResolvedLayer& layer) {
        return layer.layer.As<FoldedConvolution>() != nullptr;
      };
      const auto layer = std::find_if(fused.layers.begin(), fused.layers.end(), is_folded);
      REQUIRE(layer != fused.layers.end());
      CHECK(layer->layer ==
            Layer(FoldedConvolution{.out_channels = 8, .adds = adds, .relu = relu}));
      CHECK(layer->name == "block.conv");
      CHECK(layer->owners == std::vector<std::string>{"block.conv", "block.bn"});
    }
  }
}

TEST_CASE("parameters keep their names, in any order of sums") {
  Graph net(Options());
  const std::string images = net.Input({2, 8, 8});
  const std::string a = Normalised(net, "a", kWiden, images);
  const std::string b = Normalised(net, "b", kWiden, images);
  End(net, net.Add("relu", Relu{}, {net.Add("sum", Add{}, {a, b})}));
  const ResolvedGraph fused = Folded(net);
  CHECK(FoldedLayers(fused).size() == 2);
  const auto names = [](const Program& program) {
    std::vector<std::string> found;
    for (const Tensor& tensor : program.tensors) {
      if (tensor.role == Role::kParam || tensor.role == Role::kState) found.push_back(tensor.name);
    }
    std::sort(found.begin(), found.end());
    return found;
  };
  CHECK(names(BuildProgram(fused, ProgramOptions{}).value()) ==
        names(BuildProgram(net, {}).value()));
}

TEST_CASE("convolutions that do not gain keep their batch norm") {
  struct Case {
    const char* why;
    GraphOptions options;
    Convolution convolution;
    int64_t image;
  };
  Convolution with_bias = kWiden, strided = kWiden, narrow = kWiden;
  with_bias.bias = true;
  strided.stride = 2;
  narrow.out_channels = 3;
  const Convolution wide = {.out_channels = 8, .kernel = 3, .padding = 1, .bias = false};
  const Case cases[] = {{"NCHW", Options(Layout::kChannelsFirst), kWiden, 8},
                        {"a bias", Options(), with_bias, 8},
                        {"a stride", Options(), strided, 16},
                        {"a larger window", Options(), wide, 8},
                        {"too few outputs", Options(), narrow, 8},
                        {"too few pixels", Options(), kWiden, 7}};
  for (const Case& c : cases) {
    CAPTURE(c.why);
    Graph net(c.options);
    End(net, Normalised(net, "block", c.convolution, net.Input({2, c.image, c.image})));
    CHECK(FoldedLayers(Folded(net)).empty());
  }
}

TEST_CASE("1x1 convolutions of sequences and volumes take up their batch norm, too") {
  const auto folded = [](const Shape& input, const Extents& kernel, const Extents& stride) {
    Graph net(Options());
    const Convolution convolution = {
        .out_channels = 8, .kernel = kernel, .stride = stride, .bias = false};
    End(net, Normalised(net, "block", convolution, net.Input(input)));
    return FoldedLayers(Folded(net)).size();
  };
  CHECK(folded({2, 64}, 1, 1) == 1);
  CHECK(folded({2, 64}, Extents::Of({1}), Extents::Of({1})) == 1);
  CHECK(folded({2, 4, 4, 4}, 1, 1) == 1);
  CHECK(folded({2, 4, 4, 4}, {1, 1, 1}, {1, 1, 1}) == 1);
  CHECK(folded({2, 4, 4, 4}, {1, 1, 1}, {2, 1, 1}) == 0);
}

TEST_CASE("the gradient before the ReLU is the addend's, unless that is a sum already") {
  for (const bool read_later : {false, true}) {
    CAPTURE(read_later);
    Graph net(Options());
    const std::string images = net.Input({2, 8, 8});
    const std::string other = net.Add("other", kSame, {images});
    const std::string sum =
        net.Add("sum", Add{}, {Normalised(net, "block", kWiden, images), other});
    std::string x = net.Add("relu", Relu{}, {sum});
    if (read_later) x = net.Add("late", Add{}, {net.Add("tanh", Tanh{}, {x}), other});
    End(net, x);
    const ResolvedGraph fused = Folded(net);
    REQUIRE(FoldedLayers(fused).size() == 1);
    CHECK(FoldedLayers(fused)[0]->adds == !read_later);
    if (read_later) continue;
    const Program program = BuildProgram(fused, ProgramOptions{}).value();
    const auto activation =
        std::find_if(program.steps.begin(), program.steps.end(), [](const Step& step) {
          return step.phase == Phase::kBackwardActivation &&
                 step.writes[0].operand == Operand{Slot::kLinearGrad};
        });
    REQUIRE(activation != program.steps.end());
    const TensorId dz = activation->writes[0].tensor;
    CHECK(std::any_of(program.steps.begin(), program.steps.end(), [&](const Step& step) {
      return !step.reads.empty() && program.layers[step.layer.index()].name == "other" &&
             std::any_of(step.reads.begin(), step.reads.end(),
                         [&](const Use& use) { return use.tensor == dz && use.operand == Dy(); });
    }));
  }
}

TEST_CASE("a layer that passes its gradient on to an input is the last that reads it") {
  Graph net(Options());
  const std::string images = net.Input({2, 8, 8});
  const std::string other = net.Add("other", kSame, {images});
  const std::string x =
      net.Add("folded", FoldedConvolution{.out_channels = 8, .adds = true}, {images, other});
  End(net, net.Add("late", Add{}, {x, other}));
  const absl::StatusOr<Program> program = BuildProgram(net, {});
  CHECK(program.status() ==
        absl::InvalidArgumentError(
            "layer 'late' reads 'other' after 'folded', which passes its gradient on"));
}

// The blocks of ResNet-50 with enough pixels: three stages, without the strided shortcuts.
TEST_CASE("a block's gradient is not added in a pass of its own") {
  const Graph net = nets::ResNet({.batch = 64, .layout = Layout::kChannelsLast});
  DeviceDescription gpu;
  gpu.rules = GpuRules();
  gpu.folding_types = {DType::kFp32};
  const Program program = Lower(net, {}, gpu).value();
  int folded = 0, sums = 0;
  for (const ProgramLayer& layer : program.layers)
    folded += layer.layer.As<FoldedConvolution>() != nullptr ? 1 : 0;
  for (const Step& step : program.steps) {
    for (const Use& use : step.accumulates) sums += use.operand.slot == Slot::kInputGrad ? 1 : 0;
    for (const Use& use : step.reads) sums += use.operand.slot == Slot::kAddend ? 1 : 0;
  }
  CHECK(folded == 8);  // 3 of layer1 and its shortcut, 4 of layer2; layer3 has 49 pixels a channel
  // Those of the input of layer1 and of the outputs of layer3.0 and layer4.0, where batch norms are
  // apart: two paths of a block read these, and what computes them does not add two gradients.
  CHECK(sums == 3);
}

TEST_CASE("a folded convolution adds an output of a split of which a later layer reads another") {
  Graph net(Options());
  const std::string images = net.Input({2, 8, 8});
  const Convolution stem = {.out_channels = 16, .kernel = 3, .padding = 1};
  net.Add("split", ChannelSplit{{8, 8}}, {net.Add("stem", stem, {images})});
  const std::string sum =
      net.Add("sum", Add{}, {Normalised(net, "block", kWiden, images), "split"});
  End(net, net.Add("concat", Concat{}, {net.Add("relu", Relu{}, {sum}), "split:1"}));
  const ResolvedGraph fused = Folded(net);
  REQUIRE(FoldedLayers(fused).size() == 1);
  CHECK(FoldedLayers(fused)[0]->adds);
  CHECK(BuildProgram(fused, ProgramOptions{}).ok());
}

}  // namespace
}  // namespace neap
