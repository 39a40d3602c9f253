// The declarations of layers: shapes, and the exact operands of each step.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/graph/source.h"
#include "neap/layers/activation.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/channel_shuffle.h"
#include "neap/layers/channel_slice.h"
#include "neap/layers/convolution.h"
#include "neap/layers/crop.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/lrn.h"
#include "neap/layers/multiply.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/norm/softmax.h"
#include "neap/layers/pooling.h"
#include "neap/layers/prelu.h"
#include "neap/layers/resize/pixel_shuffle.h"
#include "neap/layers/resize/resize.h"
#include "neap/layers/scale_shift.h"
#include "neap/layers/shape/permute.h"
#include "neap/layers/shape/reshape.h"
#include "neap/layers/shape/roll.h"
#include "neap/layers/shape/tile.h"
#include "neap/layers/shape/windows.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/transposed_convolution.h"
#include "neap/layers/zero_pad.h"
#include "tests/core/step/specify_checks.h"

namespace neap {
namespace {

TEST_CASE("convolution declares x and dy for its parameters, dy and weight for its input") {
  const LayerSpec spec =
      Specified(Convolution{.out_channels = 8, .kernel = 3, .stride = 2, .groups = 2},
                {Image({4, 6, 9, 8}, Layout::kChannelsLast)});
  CHECK(spec.output.ToString() == "4x8x4x3 fp32 nhwc");
  CHECK(spec.params[0].name == "weight");
  CHECK(spec.params[0].tensor.ToString() == "8x3x3x3 fp32 nhwc");
  for (const ParamSpec& param : spec.params) {
    CHECK(param.init.kind == Init::Kind::kUniform);
    CHECK(param.init.scale == doctest::Approx(1 / std::sqrt(27.0)));
  }
  CHECK(spec.params[1].tensor.ToString() == "8 fp32 nchw");
  CHECK(StepsText(spec) ==
        "forward: input[0] param[0] param[1] -> output[0]\n"
        "backward_params: input[0] output_grad[0] -> param_grad[0] param_grad[1]\n"
        "backward_data: output_grad[0] param[0] -> input_grad[0]\n");
  CHECK(spec.steps[0].flops == 2.0 * 4 * 8 * 4 * 3 * 3 * 3 * 3);
  const Convolution depthwise = {.out_channels = 8, .kernel = 3, .padding = 1, .groups = 8};
  const LayerSpec of_channels = Specified(depthwise, {Image({4, 8, 6, 6})});
  for (const StepSpec& step : of_channels.steps) CHECK(step.flops == 2.0 * 4 * 8 * 6 * 6 * 3 * 3);
  CHECK(StepsText(of_channels).ends_with("-> input_grad[0] adds to addend\n"));
}

TEST_CASE("convolution without bias neither reads nor writes one") {
  const LayerSpec spec =
      Specified(Convolution{.out_channels = 8, .bias = false}, {Image({4, 6, 9, 8})});
  CHECK(spec.params.size() == 1);
  CHECK(StepsText(spec) ==
        "forward: input[0] param[0] -> output[0]\n"
        "backward_params: input[0] output_grad[0] -> param_grad[0]\n"
        "backward_data: output_grad[0] param[0] -> input_grad[0]\n");
}

TEST_CASE("relu needs y, not x, and is in place both ways") {
  CHECK(StepsText(Specified(Relu{}, {Image({2, 3, 4, 4})})) ==
        "forward: input[0] -> output[0] output[0] over input[0]\n"
        "backward_data: output[0] output_grad[0] -> input_grad[0]"
        " input_grad[0] over output_grad[0]\n");
}

TEST_CASE("an activation's backward reads y where its gradient follows from that, otherwise x") {
  const std::vector<TensorSpec> x = {Image({2, 3, 4, 4})};
  for (const Layer& layer : {Layer(LeakyRelu{}), Layer(Clip{}), Layer(Sigmoid{}), Layer(Tanh{})}) {
    CAPTURE(layer.type());
    CHECK(StepsText(Specified(layer, x)) == StepsText(Specified(Relu{}, x)));
  }
  for (const Layer& layer : {Layer(HardSigmoid{}), Layer(HardSwish{}), Layer(Silu{}), Layer(Gelu{}),
                             Layer(Elu{}), Layer(Softplus{}), Layer(Mish{})}) {
    CAPTURE(layer.type());
    CHECK(StepsText(Specified(layer, x)) ==
          "forward: input[0] -> output[0] output[0] over input[0]\n"
          "backward_data: input[0] output_grad[0] -> input_grad[0]"
          " input_grad[0] over output_grad[0]\n");
  }
}

TEST_CASE("prelu adds up the gradient of its slopes in the step that computes its input's") {
  const LayerSpec spec = Specified(Prelu{.slopes = 3}, {Image({2, 3, 4, 4})});
  CHECK(StepsText(spec) ==
        "forward: input[0] param[0] -> output[0] output[0] over input[0]\n"
        "backward_data: input[0] param[0] output_grad[0] -> input_grad[0] param_grad[0]"
        " input_grad[0] over output_grad[0] adds to param_grad\n");
  CHECK(spec.params[0].name == "weight");
  CHECK(spec.params[0].tensor.ToString() == "3 fp32 nchw");
  CHECK(spec.params[0].init == Init{Init::Kind::kConstant, 0.25F});
  TensorSpec half = Image({2, 3, 4, 4});
  half.dtype = DType::kBf16;
  CHECK(Specified(Prelu{}, {half}).params[0].tensor.ToString() == "1 fp32 nchw");
}

TEST_CASE("batch norm reruns from its saved statistics and needs no y") {
  const LayerSpec spec = Specified(BatchNorm{}, {Image({2, 3, 4, 4})});
  CHECK(
      StepsText(spec) ==
      "forward: input[0] param[0] param[1] -> output[0] saved[0] saved[1] + state[0] state[1]"
      " rerun input[0] param[0] param[1] saved[0] saved[1] output[0] over input[0] adds to state\n"
      "backward_data: input[0] output_grad[0] param[0] saved[0] saved[1] ->"
      " input_grad[0] param_grad[0] param_grad[1] input_grad[0] over output_grad[0]\n");
  CHECK(spec.params[0].init.scale == 1);
  CHECK(spec.params[1].init.scale == 0);
  CHECK(spec.states[0].name == "running_mean");
  CHECK(spec.states[0].init == Init{Init::Kind::kConstant, 0});
  CHECK(spec.states[1].init == Init{Init::Kind::kConstant, 1});
  CHECK(spec.saved[1].tensor.ToString() == "3 fp32 nchw");
}

TEST_CASE("norms of each image rerun from their saved statistics, and kernels add to gradients") {
  const std::string forward =
      "forward: input[0] param[0] param[1] -> output[0] saved[0] saved[1]"
      " rerun input[0] param[0] param[1] saved[0] saved[1] output[0] over input[0]\n";
  const std::string backward =
      "backward_data: input[0] output_grad[0] param[0] saved[0] saved[1] ->"
      " input_grad[0] param_grad[0] param_grad[1] input_grad[0] over output_grad[0]"
      " adds to param_grad\n";
  const TensorSpec x = Image({2, 6, 4, 5}, Layout::kChannelsLast);
  for (const Layer& layer :
       {Layer(GroupNorm{.groups = 3}), Layer(InstanceNorm{.affine = true}), Layer(LayerNorm{})}) {
    CAPTURE(layer.type());
    const LayerSpec spec = Specified(layer, {x});
    std::string steps = forward + backward;
    if (layer.As<LayerNorm>() != nullptr) steps.insert(steps.size() - 1, " adds to addend");
    CHECK(StepsText(spec) == steps);
    CHECK(spec.output == x);
    CHECK(spec.params[0].name == "weight");
    CHECK(spec.params[0].init == Init{Init::Kind::kConstant, 1});
    CHECK(spec.params[1].init == Init{Init::Kind::kConstant, 0});
    CHECK(spec.params[1].tensor.ToString() == "6 fp32 nchw");
    CHECK(spec.traits == LayerTraits{.independent_images = true});
    const LayerSpec inference = Specified(layer, {x}, Mode::kInference);
    CHECK(StepsText(inference) ==
          "forward: input[0] param[0] param[1] -> output[0] output[0] over input[0]\n");
    CHECK(inference.saved.empty());
    CHECK(inference.traits == spec.traits);
  }
  CHECK(Specified(GroupNorm{.groups = 3}, {x}).saved[1].tensor.ToString() == "2x3 fp32 nchw");
  CHECK(Specified(LayerNorm{}, {x}).saved[0].tensor.ToString() == "2x1x4x5 fp32 nchw");
  const LayerSpec instance = Specified(InstanceNorm{}, {x});
  CHECK(instance.saved[0].tensor.ToString() == "2x6 fp32 nchw");
  CHECK(instance.params.empty());
  CHECK(StepsText(instance) ==
        "forward: input[0] -> output[0] saved[0] saved[1]"
        " rerun input[0] saved[0] saved[1] output[0] over input[0]\n"
        "backward_data: input[0] output_grad[0] saved[0] saved[1] -> input_grad[0]"
        " input_grad[0] over output_grad[0]\n");
  CHECK(instance.values_per_variance == 20);
  CHECK_FALSE(Specified(GroupNorm{.groups = 6}, {x}).values_per_variance.has_value());
}

TEST_CASE("norms of each image without a bias read and train a weight alone") {
  const TensorSpec x = Image({2, 6, 4, 5});
  for (const Layer& layer :
       {Layer(GroupNorm{.groups = 3, .bias = false}),
        Layer(InstanceNorm{.affine = true, .bias = false}), Layer(LayerNorm{.bias = false})}) {
    CAPTURE(layer.type());
    const LayerSpec spec = Specified(layer, {x});
    REQUIRE(spec.params.size() == 1);
    CHECK(spec.params[0].name == "weight");
    const bool takes_addend = layer.As<LayerNorm>() != nullptr;
    CHECK(StepsText(spec) ==
          absl::StrCat(
              "forward: input[0] param[0] -> output[0] saved[0] saved[1]"
              " rerun input[0] param[0] saved[0] saved[1] output[0] over input[0]\n"
              "backward_data: input[0] output_grad[0] param[0] saved[0] saved[1] ->"
              " input_grad[0] param_grad[0] input_grad[0] over output_grad[0] adds to param_grad",
              takes_addend ? " adds to addend\n" : "\n"));
  }
  CHECK(Specified(LayerNorm{.affine = false, .bias = false}, {x}).params.empty());
  CHECK(Specified(LayerNorm{.affine = false}, {x}).params.empty());
}

TEST_CASE("in inference only forward runs, and batch norm reads its running statistics") {
  const LayerSpec norm = Specified(BatchNorm{}, {Image({2, 3, 4, 4})}, Mode::kInference);
  CHECK(StepsText(norm) ==
        "forward: input[0] param[0] param[1] state[0] state[1] -> output[0]"
        " output[0] over input[0]\n");
  CHECK(norm.saved.empty());
  const LayerSpec pool = Specified(MaxPool{}, {Image({2, 3, 4, 4})}, Mode::kInference);
  CHECK(StepsText(pool) == "forward: input[0] -> output[0]\n");
  const LayerSpec dropout = Specified(Dropout{}, {Image({2, 3, 4, 4})}, Mode::kInference);
  CHECK(StepsText(dropout) == "forward: input[0] -> output[0] output[0] over input[0]\n");
}

TEST_CASE("the other layers declare what their headers say") {
  const TensorSpec x = Image({2, 3, 4, 4});
  for (const Layer& layer :
       {Layer(Dropout{}), Layer(Dropout{.per_channel = true}), Layer(StochasticDepth{})}) {
    CHECK(StepsText(Specified(layer, {x})) ==
          "forward: input[0] iteration[0] -> output[0] output[0] over input[0]\n"
          "backward_data: output_grad[0] iteration[0] -> input_grad[0]"
          " input_grad[0] over output_grad[0]\n");
  }
  CHECK(StepsText(Specified(MaxPool{}, {x})) ==
        "forward: input[0] -> output[0] saved[0]\n"
        "backward_data: output_grad[0] saved[0] -> input_grad[0]\n");
  CHECK(StepsText(Specified(GlobalAveragePool{}, {x})) ==
        "forward: input[0] -> output[0]\n"
        "backward_data: output_grad[0] -> input_grad[0] adds to input_grad\n");
  CHECK(StepsText(Specified(LocalResponseNorm{}, {x})) ==
        "forward: input[0] -> output[0]\n"
        "backward_data: input[0] output_grad[0] -> input_grad[0]"
        " input_grad[0] over output_grad[0]\n");
  CHECK(StepsText(Specified(Softmax{}, {x})) ==
        "forward: input[0] -> output[0] output[0] over input[0]\n"
        "backward_data: output[0] output_grad[0] -> input_grad[0]"
        " input_grad[0] over output_grad[0] input_grad[0] over output[0]\n");
  const LayerSpec add = Specified(Add{}, {x, x});
  CHECK(add.passes_gradient);
  CHECK(StepsText(add) ==
        "forward: input[0] input[1] -> output[0] output[0] over input[0]\n"
        "backward_data: output_grad[0] -> input_grad[0] input_grad[1] adds to input_grad\n");
  const LayerSpec per_channel = Specified(Add{}, {x, Image({2, 3, 1, 1})});
  CHECK(per_channel.output == x);
  CHECK_FALSE(per_channel.passes_gradient);
  CHECK(StepsText(per_channel) ==
        "forward: input[0] input[1] -> output[0] output[0] over input[0]\n"
        "backward_data: output_grad[0] -> input_grad[0] input_grad[1]"
        " input_grad[0] over output_grad[0] adds to input_grad\n");
  const LayerSpec concat = Specified(Concat{}, {x, Image({2, 5, 4, 4})});
  CHECK(concat.output.shape == Shape{2, 8, 4, 4});
  CHECK_FALSE(concat.passes_gradient);
  CHECK(StepsText(concat) ==
        "forward: input[0] input[1] -> output[0]\n"
        "backward_data: output_grad[0] -> input_grad[0] input_grad[1] adds to input_grad\n");
  for (const TensorSpec& factors : {x, Image({2, 3, 1, 1})}) {
    const LayerSpec multiply = Specified(Multiply{}, {x, factors});
    CHECK(multiply.output == x);
    CHECK(StepsText(multiply) ==
          "forward: input[0] input[1] -> output[0] output[0] over input[0]\n"
          "backward_data: input[0] input[1] output_grad[0] -> input_grad[0] input_grad[1]"
          " input_grad[0] over output_grad[0] input_grad[0] over input[0] adds to input_grad\n");
  }
  const TensorSpec labels = {.shape = {2}, .dtype = DType::kInt32};
  const LayerSpec loss = Specified(SoftmaxCrossEntropy{}, {Image({2, 10, 1, 1}), labels});
  CHECK_FALSE(loss.states[0].in_checkpoint);
  CHECK(StepsText(loss) ==
        "forward: input[0] input[1] -> output[0] state[0] output[0] over input[0] adds to state\n"
        "backward_data: output[0] input[1] -> input_grad[0] input_grad[0] over output[0]\n");
}

TEST_CASE("attention keeps its inputs, its output and a number for each query position and head") {
  const TensorSpec query = {.shape = {2, 12, 5}}, key = {.shape = {2, 6, 7}};
  const TensorSpec value = {.shape = {2, 4, 7}}, bias = {.shape = {2, 4, 5, 7}};
  const LayerSpec spec = Specified(Attention{.heads = 4, .kv_heads = 2}, {query, key, value, bias});
  CHECK(StepsText(spec) ==
        "forward: input[0] input[1] input[2] input[3] -> output[0] saved[0]\n"
        "backward_data: input[0] input[1] input[2] input[3] output[0] output_grad[0] saved[0] ->"
        " input_grad[0] input_grad[1] input_grad[2] input_grad[3]\n");
  CHECK(spec.steps[1].optional_writes == std::vector<Operand>{{Slot::kInputGrad, 3}});
  CHECK(spec.output.shape == Shape{2, 8, 5});
  CHECK(spec.saved[0].tensor.ToString() == "2x4x5 fp32 ncw");
  CHECK(spec.steps[0].flops == 2 * 2 * 4 * 5 * 7 * (3 + 2));
  CHECK(spec.steps[1].flops == 2 * 2 * 4 * 5 * 7 * (3 * 3 + 2 * 2));
  CHECK(spec.traits ==
        LayerTraits{.checkpoint = true, .hides_transfers = true, .independent_images = true});
  // A causal query reads the keys up to its own position: 1 + 2 + 3 + 4 + 5 of them.
  CHECK(Specified(Attention{.heads = 4, .kv_heads = 2, .causal = true}, {query, key, value})
            .steps[0]
            .flops == 2 * 2 * 4 * 15 * (3 + 2));
  const LayerSpec packed =
      Specified(Attention{.heads = 2, .learned_bias = true}, {Image({2, 12, 4, 3})});
  CHECK(StepsText(packed) ==
        "forward: input[0] param[0] -> output[0] saved[0]\n"
        "backward_data: input[0] param[0] output[0] output_grad[0] saved[0] -> input_grad[0]"
        " param_grad[0] adds to param_grad\n");
  CHECK(packed.output.shape == Shape{2, 4, 4, 3});
  CHECK(packed.params[0].tensor.shape == Shape{2, 12, 12});
  // Four sequences of three positions.
  const LayerSpec apart =
      Specified(Attention{.heads = 2, .learned_bias = true, .axes = 1}, {Image({2, 12, 4, 3})});
  CHECK(apart.params[0].tensor.shape == Shape{2, 3, 3});
  CHECK(apart.saved[0].tensor.shape == Shape{2, 8, 3});
  CHECK(apart.steps[0].flops == packed.steps[0].flops / 4);
  // Of windows, a number for each of 3 x 5 offsets.
  const WindowBias windows = {.window = {2, 3}, .size = {4, 9}, .shift = 1};
  const LayerSpec shifted =
      Specified(Attention{.heads = 2, .axes = 1, .window_bias = windows}, {Image({2, 12, 6, 6})});
  CHECK(StepsText(shifted) == StepsText(packed));
  CHECK(shifted.params[0].name == "relative_position_bias_table");
  CHECK(shifted.params[0].tensor.shape == Shape{15, 2});
}

TEST_CASE("layers declare the traits that the papers' policies and accounting use") {
  const std::vector<TensorSpec> x = {Image({2, 4, 6, 6})};
  LayerTraits convolution = {.checkpoint = true,
                             .hides_transfers = true,
                             .divisible = true,
                             .independent_images = true,
                             .multiplies = true,
                             .paper_reads_output = false};
  CHECK(Specified(TransposedConvolution{.out_channels = 4}, x).traits == convolution);
  CHECK(Specified(Convolution{.out_channels = 4}, x).traits == convolution);
  CHECK(Specified(FullyConnected{.out_features = 4}, x).traits ==
        LayerTraits{.checkpoint = true,
                    .independent_images = true,
                    .multiplies = true,
                    .paper_reads_output = false});
  CHECK(Specified(Add{}, {x[0], x[0]}).traits ==
        LayerTraits{.checkpoint = true, .independent_images = true});
  for (const Layer& layer : {Layer(Relu{}), Layer(LocalResponseNorm{})})
    CHECK(Specified(layer, x).traits ==
          LayerTraits{.independent_images = true, .paper_in_place = true});
  for (const Layer& layer : {Layer(Sigmoid{}),
                             Layer(Tanh{}),
                             Layer(Dropout{}),
                             Layer(StochasticDepth{}),
                             Layer(MaxPool{}),
                             Layer(AveragePool{}),
                             Layer(GlobalAveragePool{}),
                             Layer(Concat{}),
                             Layer(Crop{}),
                             Layer(ZeroPad{}),
                             Layer(Softmax{}),
                             Layer(Reshape{{0, -1}}),
                             Layer(Permute{{2, 1, 3}}),
                             Layer(WindowPartition{2}),
                             Layer(Roll{1}),
                             Layer(Tile{.repeats = 2, .channels = 3}),
                             Layer(ScaleShift{}),
                             Layer(ScaleShift{.learns_scale = true}),
                             Layer(ChannelSlice{}),
                             Layer(ChannelShuffle{.groups = 1}),
                             Layer(Resize{.scales = {2}}),
                             Layer(PixelShuffle{}),
                             Layer(PixelUnshuffle{}),
                             Layer(AdaptiveAveragePool{.size = 2}),
                             Layer(LeakyRelu{}),
                             Layer(Clip{}),
                             Layer(HardSigmoid{}),
                             Layer(HardSwish{}),
                             Layer(Silu{}),
                             Layer(Gelu{}),
                             Layer(Elu{}),
                             Layer(Softplus{}),
                             Layer(Mish{}),
                             Layer(Prelu{})}) {
    CAPTURE(layer.type());
    CHECK(Specified(layer, x).traits == LayerTraits{.independent_images = true});
  }
  CHECK(Specified(Multiply{}, {x[0], x[0]}).traits == LayerTraits{.independent_images = true});
  CHECK(Specified(BatchNorm{}, x).traits == LayerTraits{.coupled_by_statistics = true});
}

TEST_CASE("a pooling index takes one byte up to 256 window elements") {
  const TensorSpec x = Image({1, 1, 20, 20});
  CHECK(Specified(MaxPool{.kernel = 16}, {x}).saved[0].tensor.dtype == DType::kUInt8);
  CHECK(Specified(MaxPool{.kernel = 17}, {x}).saved[0].tensor.dtype == DType::kInt32);
}

TEST_CASE("a fully connected weight has the image's axes here and two axes in files") {
  const LayerSpec spec = Specified(FullyConnected{.out_features = 10}, {Image({2, 3, 4, 5})});
  CHECK(spec.output.shape == Shape{2, 10, 1, 1});
  CHECK(spec.params[0].tensor.shape == Shape{10, 3, 4, 5});
  CHECK(spec.params[0].saved_shape == Shape{10, 60});
}

TEST_CASE("feeds take no inputs and output the given tensor") {
  const TensorSpec x = Image({2, 6, 5, 5});
  CHECK(Specified(Feed{x}, {}).output == x);
  CHECK(Specified(Feed{x}, {}).steps.empty());
  CHECK(Specified(Feed{{.shape = {2}, .dtype = DType::kInt32}}, {}).output.shape == Shape{2});
  CheckRefused(Feed{x}, {x}, "is a feed and takes no inputs, got 1");
  CheckRefused(Feed{{.shape = {2, 0}}}, {}, "its tensor, 2x0 fp32 nchw, is empty");
}

TEST_CASE("phases and operands have names") {
  for (Phase phase :
       {Phase::kForward, Phase::kBackwardData, Phase::kBackwardParams, Phase::kUpdate}) {
    CHECK(ParsePhase(Name(phase)).value() == phase);
  }
  CHECK(Name(Phase::kAddGradients) == "add_gradients");
  CHECK(absl::IsInvalidArgument(ParsePhase("add_gradients").status()));  // not in programs
  CHECK(absl::IsInvalidArgument(ParsePhase("sideways").status()));
  CHECK(ToString({Slot::kInputGrad, 1}) == "input_grad[1]");
  CHECK(ToString({Slot::kIteration}) == "iteration[0]");
}

}  // namespace
}  // namespace neap
