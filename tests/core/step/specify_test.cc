// What layers declare: shapes, the exact operands of each step, and what they refuse.
#include <doctest/doctest.h>

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/graph/source.h"
#include "neap/core/step/optimizer.h"
#include "neap/core/step/window.h"
#include "neap/layers/activation.h"
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
#include "neap/layers/pooling.h"
#include "neap/layers/scale_shift.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"
#include "neap/layers/transposed_convolution.h"
#include "neap/layers/zero_pad.h"

namespace neap {
namespace {

TensorSpec Image(Shape shape, Layout layout = Layout::kChannelsFirst) {
  return {.shape = std::move(shape), .layout = layout};
}

std::string Text(const std::vector<Operand>& operands) {
  return absl::StrJoin(operands, " ", [](std::string* out, Operand operand) {
    absl::StrAppend(out, ToString(operand));
  });
}

std::string SlotName(Slot slot) {
  const std::string operand = ToString({slot});  // "state[0]"
  return operand.substr(0, operand.find('['));
}

// "reads -> writes (+ accumulates) [rerun reads] in place [adds to slots]", one line per step.
std::string StepsText(const LayerSpec& spec) {
  std::string text;
  for (const StepSpec& step : spec.steps) {
    absl::StrAppend(&text, std::string(Name(step.phase)), ": ", Text(step.reads), " -> ",
                    Text(step.writes));
    if (!step.accumulates.empty()) absl::StrAppend(&text, " + ", Text(step.accumulates));
    if (!step.rerun_reads.empty()) absl::StrAppend(&text, " rerun ", Text(step.rerun_reads));
    for (const auto& [written, read] : step.in_place) {
      absl::StrAppend(&text, " ", ToString(written), " over ", ToString(read));
    }
    for (Slot slot : step.accumulates_natively) absl::StrAppend(&text, " adds to ", SlotName(slot));
    text += "\n";
  }
  return text;
}

LayerSpec Specified(const Layer& layer, const std::vector<TensorSpec>& inputs,
                    Mode mode = Mode::kTraining) {
  absl::StatusOr<LayerSpec> spec = layer.Specify({.inputs = inputs, .mode = mode});
  REQUIRE(spec.ok());
  return *std::move(spec);
}

void CheckRefused(const Layer& layer, const std::vector<TensorSpec>& inputs,
                  const std::string& reason) {
  const absl::StatusOr<LayerSpec> spec = layer.Specify({.inputs = inputs});
  CAPTURE(reason);
  CHECK(absl::IsInvalidArgument(spec.status()));
  CHECK(std::string(spec.status().message()) == reason);
}

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
  for (const StepSpec& step : Specified(depthwise, {Image({4, 8, 6, 6})}).steps)
    CHECK(step.flops == 2.0 * 4 * 8 * 6 * 6 * 3 * 3);
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
  for (const Layer& layer : {Layer(HardSigmoid{}), Layer(HardSwish{}), Layer(Silu{})}) {
    CAPTURE(layer.type());
    CHECK(StepsText(Specified(layer, x)) ==
          "forward: input[0] -> output[0] output[0] over input[0]\n"
          "backward_data: input[0] output_grad[0] -> input_grad[0]"
          " input_grad[0] over output_grad[0]\n");
  }
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
  CHECK(StepsText(Specified(Dropout{}, {x})) ==
        "forward: input[0] iteration[0] -> output[0] output[0] over input[0]\n"
        "backward_data: output_grad[0] iteration[0] -> input_grad[0]"
        " input_grad[0] over output_grad[0]\n");
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
  const LayerSpec add = Specified(Add{}, {x, x});
  CHECK(add.passes_gradient);
  CHECK(StepsText(add) ==
        "forward: input[0] input[1] -> output[0] output[0] over input[0]\n"
        "backward_data: output_grad[0] -> input_grad[0] input_grad[1] adds to input_grad\n");
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

TEST_CASE("layers declare the traits that the papers' policies and accounting use") {
  const std::vector<TensorSpec> x = {Image({2, 4, 6, 6})};
  LayerTraits convolution = {.checkpoint = true,
                             .hides_transfers = true,
                             .divisible = true,
                             .independent_images = true,
                             .paper_reads_output = false};
  CHECK(Specified(TransposedConvolution{.out_channels = 4}, x).traits == convolution);
  CHECK(Specified(Convolution{.out_channels = 4}, x).traits == convolution);
  CHECK(Specified(FullyConnected{.out_features = 4}, x).traits ==
        LayerTraits{.checkpoint = true, .independent_images = true, .paper_reads_output = false});
  CHECK(Specified(Add{}, {x[0], x[0]}).traits ==
        LayerTraits{.checkpoint = true, .independent_images = true});
  for (const Layer& layer : {Layer(Relu{}), Layer(LocalResponseNorm{})})
    CHECK(Specified(layer, x).traits ==
          LayerTraits{.independent_images = true, .paper_in_place = true});
  for (const Layer& layer :
       {Layer(Sigmoid{}), Layer(Tanh{}), Layer(Dropout{}), Layer(MaxPool{}), Layer(AveragePool{}),
        Layer(GlobalAveragePool{}), Layer(Concat{}), Layer(Crop{}), Layer(ZeroPad{}),
        Layer(ScaleShift{}), Layer(ChannelSlice{}), Layer(ChannelShuffle{.groups = 1}),
        Layer(LeakyRelu{}), Layer(Clip{}), Layer(HardSigmoid{}), Layer(HardSwish{}),
        Layer(Silu{})}) {
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

TEST_CASE("windows that do not fit are refused") {
  const std::vector<TensorSpec> x = {Image({2, 6, 5, 5})};
  CheckRefused(Convolution{.out_channels = 4, .kernel = 7}, x,
               "kernel 7x7 with dilation 1x1 is larger than the image 5x5 with padding 0x0");
  CheckRefused(Convolution{.out_channels = 4, .kernel = 3, .dilation = 3}, x,
               "kernel 3x3 with dilation 3x3 is larger than the image 5x5 with padding 0x0");
  CheckRefused(Convolution{.out_channels = 4, .kernel = {0, 1}}, x, "kernel 0x1 must be positive");
  CheckRefused(Convolution{.out_channels = 4, .stride = 0}, x, "stride 0x0 must be positive");
  CheckRefused(Convolution{.out_channels = 4, .dilation = 0}, x, "dilation 0x0 must be positive");
  CheckRefused(Convolution{.out_channels = 4, .padding = -1}, x,
               "padding -1x-1 must not be negative");
  CheckRefused(MaxPool{.kernel = 3, .padding = 2}, x,
               "padding 2x2 is more than half the kernel 3x3");
  CheckRefused(AveragePool{.kernel = 6}, x,
               "kernel 6x6 with dilation 1x1 is larger than the image 5x5 with padding 0x0");
}

TEST_CASE("windows whose sums and products would overflow are refused") {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const std::vector<TensorSpec> x = {Image({2, 6, 5, 5})};
  CheckRefused(Convolution{.out_channels = 4, .kernel = 3, .dilation = kMax}, x,
               "dilation 9223372036854775807x9223372036854775807 must be at most 2147483647");
  CheckRefused(Convolution{.out_channels = 4, .padding = {0, kMax / 2}}, x,
               "padding 0x4611686018427387903 must be at most 2147483647");
  CheckRefused(Convolution{.out_channels = 4, .kernel = kMax}, x,
               "kernel 9223372036854775807x9223372036854775807 must be at most 2147483647");
  CheckRefused(MaxPool{.kernel = {2, kMax}, .padding = kMax}, x,
               "kernel 2x9223372036854775807 must be at most 2147483647");
  CheckRefused(AveragePool{.kernel = 2, .stride = int64_t{1} << 32}, x,
               "stride 4294967296x4294967296 must be at most 2147483647");
  CheckRefused(TransposedConvolution{.out_channels = 4, .kernel = 2, .stride = kMax}, x,
               "stride 9223372036854775807x9223372036854775807 must be at most 2147483647");
  CheckRefused(LocalResponseNorm{.size = kMax}, x,
               "size 9223372036854775807 must be at most 2147483647");
  CheckRefused(Relu{}, {Image({1, 1, 1, kMax})},
               "input 0, 1x1x1x9223372036854775807 fp32 nchw, is larger than 16 TiB");
}

TEST_CASE("the largest windows and images have the sizes that they should") {
  constexpr int64_t kMax = kMaxWindowExtent;
  const LayerSpec wide = Specified(
      Convolution{.out_channels = 1, .kernel = 2, .padding = kMax, .dilation = kMax, .bias = false},
      {Image({1, 1, 2, 2})});
  CHECK(wide.output.shape == Shape{1, 1, kMax + 2, kMax + 2});
  const LayerSpec pooled = Specified(
      MaxPool{.kernel = {kMax, 1}, .stride = 1, .padding = {kMax / 2, 0}}, {Image({1, 1, 3, 3})});
  CHECK(pooled.output.shape == Shape{1, 1, 3, 3});
  CHECK(pooled.steps[0].flops == 9.0 * static_cast<double>(kMax));
  const LayerSpec high = Specified(TransposedConvolution{.out_channels = kMax, .stride = kMax},
                                   {Image({1, 1, int64_t{1} << 40, 1})});
  CHECK(high.output.shape.h() == int64_t{1} << 62);
  CHECK(high.output.size_bytes() == std::numeric_limits<int64_t>::max());
}

TEST_CASE("a transposed convolution undoes what a convolution does to the size") {
  const TensorSpec x = Image({2, 6, 5, 4});
  const LayerSpec spec =
      Specified(TransposedConvolution{.out_channels = 3, .kernel = 4, .stride = 2}, {x});
  CHECK(spec.output.shape == Shape{2, 3, 12, 10});
  CHECK(spec.params[0].tensor.shape == Shape{6, 3, 4, 4});
  CHECK(Specified(Convolution{.out_channels = 6, .kernel = 4, .stride = 2}, {spec.output})
            .output.shape == x.shape);
  CHECK(StepsText(spec) ==
        "forward: input[0] param[0] param[1] -> output[0]\n"
        "backward_params: input[0] output_grad[0] -> param_grad[0] param_grad[1]\n"
        "backward_data: output_grad[0] param[0] -> input_grad[0]\n");
  CheckRefused(TransposedConvolution{}, {x}, "out_channels 0 must be positive");
  CheckRefused(TransposedConvolution{.out_channels = 1, .stride = 0}, {x},
               "stride 0x0 must be positive");
  CheckRefused(TransposedConvolution{.out_channels = 1, .padding = 2}, {x},
               "padding 2x2 leaves no output for the image 5x4");
}

TEST_CASE("a crop lies within its image") {
  const TensorSpec x = Image({2, 6, 5, 4});
  const LayerSpec spec = Specified(Crop{.size = {3, 2}, .offset = {2, 2}}, {x});
  CHECK(spec.output.shape == Shape{2, 6, 3, 2});
  CHECK(StepsText(spec) ==
        "forward: input[0] -> output[0]\nbackward_data: output_grad[0] -> input_grad[0]\n");
  CheckRefused(Crop{.size = {3, 3}, .offset = {2, 2}}, {x},
               "cannot cut 3x3 at 2,2 out of the image 5x4");
  CheckRefused(Crop{.size = 0}, {x}, "cannot cut 0x0 at 0,0 out of the image 5x4");
  CheckRefused(Crop{.size = 1, .offset = -1}, {x}, "cannot cut 1x1 at -1,-1 out of the image 5x4");
}

TEST_CASE("zeros are added on every side, and not taken away") {
  constexpr int64_t kMax = kMaxWindowExtent;
  const TensorSpec x = Image({2, 6, 5, 4});
  const LayerSpec spec = Specified(ZeroPad{.top = 1, .left = 2, .bottom = 3, .right = 4}, {x});
  CHECK(spec.output.shape == Shape{2, 6, 9, 10});
  CHECK(StepsText(spec) ==
        "forward: input[0] -> output[0]\nbackward_data: output_grad[0] -> input_grad[0]\n");
  CHECK(Specified(ZeroPad{}, {x}).output == x);
  CHECK(Specified(ZeroPad{.top = kMax, .bottom = kMax}, {x}).output.shape.h() == 2 * kMax + 5);
  CheckRefused(ZeroPad{.left = -1}, {x},
               "top=0 left=-1 bottom=0 right=0 must be between 0 and 2147483647");
  CheckRefused(ZeroPad{.right = kMax + 1}, {x},
               "top=0 left=0 bottom=0 right=2147483648 must be between 0 and 2147483647");
}

TEST_CASE("impossible channels and features are refused") {
  const std::vector<TensorSpec> x = {Image({2, 6, 5, 5})};
  CheckRefused(Convolution{}, x, "out_channels 0 must be positive");
  CheckRefused(Convolution{.out_channels = 4, .groups = 0}, x, "groups 0 must be positive");
  CheckRefused(Convolution{.out_channels = 4, .groups = 4}, x,
               "6 channels are not divisible by 4 groups");
  CheckRefused(Convolution{.out_channels = 4, .groups = 3}, x,
               "4 channels are not divisible by 3 groups");
  CheckRefused(FullyConnected{}, x, "out_features 0 must be positive");
}

TEST_CASE("options outside their range are refused") {
  const std::vector<TensorSpec> x = {Image({2, 6, 5, 5})};
  CheckRefused(Dropout{1.0F}, x, "probability 1 is outside [0, 1)");
  CheckRefused(Dropout{-0.5F}, x, "probability -0.5 is outside [0, 1)");
  CheckRefused(LocalResponseNorm{.size = 4}, x, "size 4 must be odd and positive");
  CheckRefused(BatchNorm{.epsilon = 0}, x, "epsilon 0 must be positive");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CheckRefused(LeakyRelu{-0.1F}, x, "negative_slope -0.1 must be finite and not negative");
  CheckRefused(LeakyRelu{nan}, x, "negative_slope nan must be finite and not negative");
  CheckRefused(Clip{.low = 6, .high = 6}, x, "low 6 must be less than high 6");
  CheckRefused(Clip{.low = nan}, x, "low nan must be less than high 6");
}

TEST_CASE("an optimizer's options outside their range are refused by name") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  const auto refused = [](const Optimizer& optimizer, const std::string& why) {
    const absl::Status status = CheckOptimizer(optimizer);
    CHECK(absl::IsInvalidArgument(status));
    CHECK(std::string(status.message()) == "optimizer: " + why);
  };
  refused({.momentum = nan}, "momentum nan is outside [0, 1]");
  refused({.momentum = -0.5F}, "momentum -0.5 is outside [0, 1]");
  refused({.momentum = 1.5F}, "momentum 1.5 is outside [0, 1]");
  refused({.weight_decay = nan}, "weight_decay nan must be finite and not negative");
  refused({.weight_decay = infinity}, "weight_decay inf must be finite and not negative");
  refused({.weight_decay = -1.0F}, "weight_decay -1 must be finite and not negative");
  refused({.beta1 = 1}, "beta1 1 is outside [0, 1)");
  refused({.beta2 = nan}, "beta2 nan is outside [0, 1)");
  refused({.epsilon = 0}, "epsilon 0 must be finite and positive");
  refused({.clip_norm = -1}, "clip_norm -1 must be finite and not negative");
  refused({.average_decay = 1}, "average_decay 1 is outside [0, 1)");
  refused({.momentum = 0, .nesterov = true}, "nesterov needs SGD with momentum");
  refused({.rule = Optimizer::Rule::kAdamW, .nesterov = true}, "nesterov needs SGD with momentum");
  for (const Optimizer& optimizer :
       {Optimizer{}, Optimizer{.momentum = 0}, Optimizer{.momentum = 1, .weight_decay = 2},
        Optimizer{.rule = Optimizer::Rule::kAdamW, .beta1 = 0, .clip_norm = 1},
        Optimizer{.nesterov = true, .average_decay = 0.99F}})
    CHECK(CheckOptimizer(optimizer).ok());
}

TEST_CASE("wrong inputs are refused") {
  const TensorSpec x = Image({2, 6, 5, 5});
  CheckRefused(Relu{}, {}, "takes 1 input, got 0");
  CheckRefused(Relu{}, {x, x}, "takes 1 input, got 2");
  CheckRefused(Add{}, {x}, "takes at least 2 inputs, got 1");
  CheckRefused(Relu{}, {{.shape = {5}}},
               "input 0 is 5 fp32 nchw, expected {N, C, T}, {N, C, H, W} or {N, C, D, H, W}");
  CheckRefused(Relu{}, {Image({2, 0, 5, 5})}, "input 0 is 2x0x5x5 fp32 nchw: it has no elements");
  CheckRefused(Relu{}, {{.shape = {1, 1, 1, 1}, .dtype = DType::kInt32}},
               "input 0 is 1x1x1x1 int32 nchw, expected a floating-point tensor");
  CheckRefused(Add{}, {x, Image({2, 6, 5, 4})},
               "cannot add input 1 of shape 2x6x5x4 to input 0 of shape 2x6x5x5");
  CheckRefused(Multiply{}, {x, Image({2, 6, 5, 1})},
               "cannot multiply input 0 of shape 2x6x5x5 by input 1 of shape 2x6x5x1: it must be of"
               " that shape or 2x6x1x1");
  CheckRefused(Multiply{}, {x, Image({2, 6, 1, 1}, Layout::kChannelsLast)},
               "input 1 is 2x6x1x1 fp32 nhwc, input 0 is 2x6x5x5 fp32 nchw: dtype and layout must"
               " agree");
  CheckRefused(Multiply{}, {x}, "takes 2 inputs, got 1");
  CheckRefused(Concat{}, {x, Image({2, 6, 5, 4})},
               "cannot concatenate input 1 of shape 2x6x5x4 with input 0 of shape 2x6x5x5: all"
               " but the channels must agree");
  CheckRefused(Concat{}, {x, Image({2, 6, 5, 5}, Layout::kChannelsLast)},
               "input 1 is 2x6x5x5 fp32 nhwc, input 0 is 2x6x5x5 fp32 nchw: dtype and layout must"
               " agree");
}

TEST_CASE("a loss needs one int32 label per image, or per pixel") {
  const TensorSpec logits = Image({2, 10, 1, 1});
  const TensorSpec labels = {.shape = {2}, .dtype = DType::kInt32};
  CheckRefused(SoftmaxCrossEntropy{}, {logits}, "takes 2 inputs, logits and labels, got 1");
  CheckRefused(SoftmaxCrossEntropy{}, {Image({2, 10, 2, 1}), labels},
               "labels are 2 int32 nchw, expected int32 2x2x1 for logits of 2x10x2x1");
  const TensorSpec pixels = {.shape = {2, 2, 1}, .dtype = DType::kInt32};
  CHECK(Specified(SoftmaxCrossEntropy{}, {Image({2, 10, 2, 1}), pixels}).output.shape ==
        Shape{2, 10, 2, 1});
  CheckRefused(SoftmaxCrossEntropy{}, {logits, {.shape = {2}}},
               "labels are 2 fp32 nchw, expected int32 2 for logits of 2x10x1x1");
  CheckRefused(SoftmaxCrossEntropy{}, {logits, {.shape = {3}, .dtype = DType::kInt32}},
               "labels are 3 int32 nchw, expected int32 2 for logits of 2x10x1x1");
}

TEST_CASE("labels are smoothed by less than 1") {
  const std::vector<TensorSpec> inputs = {Image({2, 10, 1, 1}),
                                          {.shape = {2}, .dtype = DType::kInt32}};
  CHECK(SoftmaxCrossEntropy{.label_smoothing = 0.5F}.Specify({.inputs = inputs}).ok());
  for (float smoothing : {-0.5F, 1.0F}) {
    CheckRefused(SoftmaxCrossEntropy{.label_smoothing = smoothing}, inputs,
                 absl::StrCat("label smoothing is ", smoothing, ", expected 0 <= smoothing < 1"));
  }
  CheckRefused(SoftmaxCrossEntropy{.label_smoothing = std::nanf("")}, inputs,
               "label smoothing is nan, expected 0 <= smoothing < 1");
}

TEST_CASE("a loss against targets needs one for each element of the predictions, in fp32") {
  const TensorSpec x = Image({2, 10, 3, 1});
  for (const Layer& loss : std::vector<Layer>{MeanSquaredError{}, BinaryCrossEntropy{}}) {
    const LayerSpec spec = loss.Specify({.inputs = {x, x}}).value();
    CHECK(spec.output == x);
    CHECK_FALSE(spec.states[0].in_checkpoint);
    CHECK(StepsText(spec) ==
          "forward: input[0] input[1] -> output[0] state[0] output[0] over input[0] adds to state\n"
          "backward_data: output[0] input[1] -> input_grad[0] input_grad[0] over output[0]\n");
    CHECK(loss.Specify({.inputs = {x, x}, .scales_loss = true})->steps[1].reads.back() ==
          Operand{Slot::kLossScale});
    CheckRefused(loss, {x}, "takes 2 inputs, predictions and targets, got 1");
    CheckRefused(loss, {x, Image({2, 10, 1, 3})},
                 "targets are 2x10x1x3 fp32 nchw, expected 2x10x3x1 fp32 nchw for predictions of "
                 "2x10x3x1 fp32 nchw");
    CheckRefused(loss, {x, Image({2, 10, 3, 1}, Layout::kChannelsLast)},
                 "targets are 2x10x3x1 fp32 nhwc, expected 2x10x3x1 fp32 nchw for predictions of "
                 "2x10x3x1 fp32 nchw");
    TensorSpec half = x;
    half.dtype = DType::kBf16;
    CHECK(loss.Specify({.inputs = {half, x}})->output == x);
    CHECK(loss.Specify({.inputs = {half, x}})->steps[0].in_place.empty());
  }
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
