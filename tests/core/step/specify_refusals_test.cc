// Options and inputs that layers, losses and optimizers refuse.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/step/optimizer.h"
#include "neap/layers/activation.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/loss/dice_loss.h"
#include "neap/layers/lrn.h"
#include "neap/layers/multiply.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/norm/softmax.h"
#include "neap/layers/prelu.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"
#include "tests/core/step/specify_checks.h"

namespace neap {
namespace {

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
  CheckRefused(StochasticDepth{1.0F}, x, "rate 1 is outside [0, 1)");
  CheckRefused(LocalResponseNorm{.size = 4}, x, "size 4 must be odd and positive");
  CheckRefused(BatchNorm{.epsilon = 0}, x, "epsilon 0 must be positive");
  CheckRefused(GroupNorm{.epsilon = -1}, x, "epsilon -1 must be positive");
  CheckRefused(InstanceNorm{.epsilon = 0}, x, "epsilon 0 must be positive");
  CheckRefused(LayerNorm{.epsilon = 0}, x, "epsilon 0 must be positive");
  CheckRefused(GroupNorm{.groups = 4}, x, "cannot normalise 6 channels in 4 groups");
  CheckRefused(GroupNorm{.groups = 0}, x, "cannot normalise 6 channels in 0 groups");
  CheckRefused(Softmax{.axis = 0}, x, "axis 0 is none from 1 to 3");
  CheckRefused(Softmax{.axis = 4}, x, "axis 4 is none from 1 to 3");
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CheckRefused(LeakyRelu{-0.1F}, x, "negative_slope -0.1 must be finite and not negative");
  CheckRefused(LeakyRelu{nan}, x, "negative_slope nan must be finite and not negative");
  CheckRefused(Clip{.low = 6, .high = 6}, x, "low 6 must be less than high 6");
  CheckRefused(Clip{.low = nan}, x, "low nan must be less than high 6");
  CheckRefused(Prelu{.slopes = 2}, x, "slopes 2 must be 1 or the number of channels, 6");
  CheckRefused(Elu{nan}, x, "alpha nan must be finite");
  CheckRefused(Softplus{.beta = 0}, x, "beta 0 must be finite and positive");
  CheckRefused(Softplus{.threshold = nan}, x, "threshold nan must be finite");
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
  CheckRefused(Add{}, {Image({2, 6, 1, 1}), x},
               "cannot add input 1 of shape 2x6x5x5 to input 0 of shape 2x6x1x1");
  CheckRefused(Add{}, {x, x, Image({2, 6, 1, 1})},
               "cannot add input 2 of shape 2x6x1x1 to input 0 of shape 2x6x5x5");
  CheckRefused(Multiply{}, {x, Image({2, 6, 5, 1})},
               "cannot multiply input 0 of shape 2x6x5x5 by input 1 of shape 2x6x5x1: it must be of"
               " that shape or 2x6x1x1");
  CheckRefused(Multiply{}, {x, Image({2, 6, 1, 1}, Layout::kChannelsLast)},
               "input 1 is 2x6x1x1 fp32 nhwc, input 0 is 2x6x5x5 fp32 nchw: dtype and layout must"
               " agree");
  CheckRefused(Multiply{}, {x}, "takes 2 inputs, got 1");
  CheckRefused(Attention{.heads = 0}, {x}, "heads 0 must be positive");
  CheckRefused(Attention{.heads = 3, .kv_heads = 2}, {x}, "kv_heads 2 must divide heads 3");
  CheckRefused(Attention{.scale = -1}, {x}, "scale -1 must not be negative");
  CheckRefused(Attention{.rotary_dims = 1}, {x}, "rotary_dims 1 must be even");
  CheckRefused(Attention{.rotary_dims = 4}, {x},
               "rotary_dims 4 is more than the 2 dimensions of a head");
  CheckRefused(Attention{.axes = -1}, {x}, "axes -1 must not be negative");
  CheckRefused(Attention{.axes = 3}, {x, x, x},
               "axes 3, but a tensor has the spatial axes of 2x6x5x5");
  CheckRefused(Attention{.axes = 1}, {x, Image({2, 6, 4, 5}), Image({2, 6, 4, 5})},
               "the query has 5 sequences, the key has 4");
  CheckRefused(Attention{.rotary_base = 0}, {x}, "rotary_base 0 must be positive");
  CheckRefused(Attention{}, {},
               "takes query, key and value, or one tensor that has all three, and a bias, got 0"
               " inputs");
  CheckRefused(Attention{.heads = 4}, {x},
               "query, key and value 2x6x5x5 fp32 nchw: its channels are no 12 heads");
  CheckRefused(Attention{.heads = 4}, {x, x, x},
               "query 2x6x5x5 fp32 nchw: its channels are no 4 heads");
  CheckRefused(Attention{.heads = 2}, {x, Image({2, 4, 5, 5}), x},
               "key 2x4x5x5 fp32 nchw has 2 dimensions in a head, the query 2x6x5x5 fp32 nchw has"
               " 3");
  CheckRefused(Attention{}, {x, x, Image({2, 6, 5, 4})},
               "key 2x6x5x5 fp32 nchw and value 2x6x5x4 fp32 nchw have other positions");
  CheckRefused(Attention{}, {x, Image({1, 6, 5, 5}), x},
               "input 1 is 1x6x5x5 fp32 nchw, input 0 is 2x6x5x5 fp32 nchw: batch, dtype and layout"
               " must agree");
  CheckRefused(Attention{.heads = 2}, {x, x, x, Image({2, 1, 25, 5})},
               "the bias is 2x1x25x5 fp32 nchw, expected 2x2x25x25, or with one head");
  CheckRefused(Attention{.heads = 1, .learned_bias = true}, {x, Image({2, 1, 25, 25})},
               "has a learned bias, and takes no other");
  const auto windows = [](const WindowBias& bias) { return Attention{.window_bias = bias}; };
  CheckRefused(windows({.window = 5, .size = 5}), {x, x, x, Image({2, 1, 25, 25})},
               "has a learned bias, and takes no other");
  CheckRefused(Attention{.learned_bias = true, .window_bias = WindowBias{.window = 5, .size = 5}},
               {x}, "has a bias of windows, and learned_bias, too");
  CheckRefused(windows({.window = 2, .size = 5}), {x},
               "the image 5x5 is not filled by windows 2x2");
  CheckRefused(windows({.window = 5, .size = 5, .shift = 5}), {x},
               "shift 5x5 must be from 0 to less than the window 5x5");
  CheckRefused(windows({.window = 5, .size = 10}), {x},
               "input 0 is 2x6x5x5 fp32 nchw, but 10x10 has 4 windows of 25 positions");
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

TEST_CASE("labels may be finer than the predictions, by a whole number along each axis") {
  const TensorSpec logits = {.shape = {2, 3, 4, 4, 2}};
  const auto labels = [](const Shape& shape) {
    return TensorSpec{.shape = shape, .dtype = DType::kInt32};
  };
  for (const Layer& loss : std::vector<Layer>{SoftmaxCrossEntropy{}, DiceLoss{}}) {
    CHECK(Specified(loss, {logits, labels({2, 4, 4, 2})}).output == logits);
    CHECK(Specified(loss, {logits, labels({2, 4, 8, 6})}).output == logits);
    CheckRefused(loss, {logits, labels({2, 4, 6, 2})},
                 "labels are 2x4x6x2 int32 nchw, expected int32 2x4x4x2 for logits of 2x3x4x4x2");
    CheckRefused(loss, {logits, labels({2, 2, 4, 2})},
                 "labels are 2x2x4x2 int32 nchw, expected int32 2x4x4x2 for logits of 2x3x4x4x2");
    CheckRefused(loss, {Image({2, 3, 1, 1}), labels({2, 4, 4})},
                 "labels are 2x4x4 int32 nchw, expected int32 2 for logits of 2x3x1x1");
  }
}

TEST_CASE("losses have numbers in their ranges") {
  const std::vector<TensorSpec> inputs = {Image({2, 3, 1, 1}),
                                          {.shape = {2}, .dtype = DType::kInt32}};
  CHECK(Specified(SoftmaxCrossEntropy{.class_weights = {0, 1, 2.5F}}, inputs).loss_mean ==
        LossMean::kLabels);
  CheckRefused(SoftmaxCrossEntropy{.class_weights = {1, 2}}, inputs,
               "has 2 class weights for 3 classes, expected one each, of 256 classes at most");
  CheckRefused(SoftmaxCrossEntropy{.class_weights = {1, -2, 0.5F}}, inputs,
               "class weights are 1, -2, 0.5, expected numbers >= 0");
  CHECK(Specified(DiceLoss{}, inputs).loss_mean == LossMean::kImages);
  CheckRefused(DiceLoss{.smooth = 0}, inputs, "smooth is 0, expected a positive number");
  CheckRefused(DiceLoss{.cross_entropy = -1}, inputs,
               "the weight of its cross-entropy is -1, expected a number >= 0");
  CheckRefused(DiceLoss{.background = false}, {Image({2, 1, 1, 1}), inputs[1]},
               "has one class, the background, which does not count");
  const std::vector<TensorSpec> both = {inputs[0], inputs[0]};
  CheckRefused(BinaryCrossEntropy{.positive_weight = -1}, both,
               "the weight of positive targets is -1, expected a number >= 0");
  CheckRefused(FocalLoss{.alpha = 1.5F}, both,
               "alpha is 1.5 and gamma 2, expected 0 <= alpha <= 1 and gamma >= 0");
}

TEST_CASE("Dice over the batch couples images, and saves one set's sums") {
  const std::vector<TensorSpec> inputs = {Image({4, 3, 2, 2}),
                                          {.shape = {4, 2, 2}, .dtype = DType::kInt32}};
  const LayerSpec per_image = Specified(DiceLoss{}, inputs);
  CHECK(per_image.traits.independent_images);
  CHECK(per_image.saved[0].tensor.shape == Shape{4, 7});
  CHECK(StepsText(per_image) ==
        "forward: input[0] input[1] -> output[0] state[0] saved[0] output[0] over input[0] adds to "
        "state\n"
        "backward_data: output[0] input[1] saved[0] -> input_grad[0] input_grad[0] over "
        "output[0]\n");
  const LayerSpec batch = Specified(DiceLoss{.batch = true}, inputs);
  CHECK_FALSE(batch.traits.independent_images);
  CHECK(batch.loss_mean == LossMean::kKnown);
  CHECK(batch.saved[0].tensor.shape == Shape{1, 7});
  CHECK(DiceLoss{}.Specify({.inputs = inputs, .mode = Mode::kInference})->saved.empty());
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

}  // namespace
}  // namespace neap
