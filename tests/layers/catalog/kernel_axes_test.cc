#include "neap/layers/catalog/kernel_axes.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "neap/core/graph/source.h"
#include "neap/core/step/operands.h"
#include "neap/layers/activation.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/channel_shuffle.h"
#include "neap/layers/channel_slice.h"
#include "neap/layers/channel_split.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cpu/cpu_backend.h"
#include "neap/layers/crop.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/fusion/fused_relu.h"
#include "neap/layers/fusion/norm_pass.h"
#include "neap/layers/join.h"
#include "neap/layers/loss/dice_loss.h"
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
#include "neap/layers/target_loss.h"
#include "neap/layers/tokens/linear_cross_entropy.h"
#include "neap/layers/tokens/position_embedding.h"
#include "neap/layers/transposed_convolution.h"
#include "neap/layers/zero_pad.h"

namespace neap {
namespace {

using namespace operands;

StepSignature Forward(const Layer& layer, const std::vector<TensorSpec>& inputs) {
  return SignatureOf(layer, Phase::kForward, inputs).value();
}

StepSignature Viewed(const Layer& layer, const std::vector<TensorSpec>& inputs) {
  return WithKernelAxes(Forward(layer, inputs));
}

TEST_CASE("a step of images stays as it is") {
  for (const Layer& layer : {Layer(Relu{}), Layer(Convolution{.out_channels = 2, .kernel = 3})}) {
    const StepSignature step = Forward(layer, {{.shape = {2, 3, 5, 6}}});
    CHECK(WithKernelAxes(step) == step);
  }
  const StepSignature labelled =
      Forward(SoftmaxCrossEntropy{},
              {{.shape = {2, 3, 5, 6}}, {.shape = {2, 5, 6}, .dtype = DType::kInt32}});
  CHECK(WithKernelAxes(labelled) == labelled);
}

TEST_CASE("a step whose kernels take all axes stays as it is") {
  for (const Layer& layer :
       {Layer(Resize{.scales = {2}}), Layer(AdaptiveAveragePool{.size = 2}), Layer(PixelShuffle{}),
        Layer(PixelUnshuffle{}), Layer(Attention{.heads = 2, .kv_heads = 1})}) {
    for (const Shape& shape : {Shape{2, 8, 6}, Shape{2, 8, 4, 6, 2}}) {
      for (const Phase phase : {Phase::kForward, Phase::kBackwardData}) {
        const StepSignature step = *SignatureOf(layer, phase, {{.shape = shape}});
        CHECK(WithKernelAxes(step) == step);
      }
    }
  }
}

TEST_CASE("sequences are images of one row, and their windows have one row") {
  const StepSignature step = Viewed(Convolution{.out_channels = 4,
                                                .kernel = 3,
                                                .stride = Extents::Of({2}),
                                                .padding = 1,
                                                .dilation = Extents::Of({2})},
                                    {{.shape = {2, 6, 19}, .layout = Layout::kChannelsLast}});
  CHECK(step.Spec(X()).ToString() == "2x6x1x19 fp32 nhwc");
  CHECK(step.Spec(Param(0)).ToString() == "4x6x1x3 fp32 nhwc");
  CHECK(step.Spec(Y()).ToString() == "2x4x1x9 fp32 nhwc");
  CHECK(step.layer.Parameters() ==
        "out_channels=4 kernel=1x3 stride=1x2 padding=0x1 dilation=1x2 groups=1 bias=true");
  const StepSignature crop = Viewed(Crop{.size = 4, .offset = Extents::Of({3})}, {{{2, 6, 19}}});
  CHECK(crop.layer.Parameters() == "size=1x4 offset=0x3");
}

TEST_CASE("axes of volumes become one where all positions are alike") {
  CHECK(Viewed(Relu{}, {{{2, 3, 4, 5, 6}}}).Spec(Y()).shape == Shape{2, 3, 20, 6});
  const StepSignature loss =
      Viewed(SoftmaxCrossEntropy{},
             {{.shape = {2, 3, 4, 5, 6}}, {.shape = {2, 4, 5, 6}, .dtype = DType::kInt32}});
  CHECK(loss.Spec(X(0)).shape == Shape{2, 3, 20, 6});
  CHECK(loss.Spec(X(1)).elements() == 2 * 4 * 5 * 6);
  const StepSignature finer =
      Viewed(SoftmaxCrossEntropy{},
             {{.shape = {2, 3, 4, 5, 6}}, {.shape = {2, 4, 10, 6}, .dtype = DType::kInt32}});
  CHECK(finer.Spec(X(0)).shape == Shape{2, 3, 4, 5, 6});
  const Layer along_width = MaxPool{.kernel = {1, 1, 3}, .stride = {1, 1, 2}};
  CHECK(Viewed(along_width, {{{2, 3, 4, 5, 7}}}).Spec(Y()).shape == Shape{2, 3, 20, 3});
  const Layer along_depth = MaxPool{.kernel = {3, 1, 1}, .stride = {2, 1, 1}};
  CHECK(Viewed(along_depth, {{{2, 3, 7, 5, 6}}}).Spec(Y()).shape == Shape{2, 3, 3, 30});
  CHECK(Viewed(along_depth, {{{2, 3, 7, 5, 6}}}).layer.Parameters() ==
        "kernel=3x1 stride=2x1 padding=0x0");
}

TEST_CASE("other windows keep three axes, with a number for each") {
  const TensorSpec x = {.shape = {2, 4, 8, 8, 8}};
  // The layer's parameters and the shape of x.
  const auto kept = [&](const Layer& layer) {
    const StepSignature viewed = Viewed(layer, {x});
    CHECK(viewed.Spec(Y()) == Forward(layer, {x}).Spec(Y()));
    return absl::StrCat(viewed.layer.Parameters(), " on ", viewed.Spec(X()).ToString());
  };
  const std::string on_x = " on 2x4x8x8x8 fp32 ncdhw";
  CHECK(kept(Convolution{.out_channels = 4, .kernel = 3}) ==
        "out_channels=4 kernel=3x3x3 stride=1x1x1 padding=0x0x0 dilation=1x1x1 groups=1 bias=true" +
            on_x);
  CHECK(kept(Convolution{.out_channels = 4, .kernel = {1, 3, 1}}) ==
        "out_channels=4 kernel=1x3x1 stride=1x1x1 padding=0x0x0 dilation=1x1x1 groups=1 bias=true" +
            on_x);
  CHECK(kept(TransposedConvolution{.out_channels = 4, .kernel = {3, 1, 3}}) ==
        "out_channels=4 kernel=3x1x3 stride=1x1x1 padding=0x0x0 bias=true bilinear=false" + on_x);
  CHECK(kept(MaxPool{}) == "kernel=2x2x2 stride=2x2x2 padding=0x0x0 dilation=1x1x1" + on_x);
  CHECK(kept(AveragePool{.kernel = 3}) ==
        "kernel=3x3x3 stride=2x2x2 padding=0x0x0 count_padding=true dilation=1x1x1" + on_x);
  CHECK(kept(FusedRelu{.pool = {.kernel = {2, 3, 2}}}) ==
        "bias=false pool=(kernel=2x3x2 stride=2x2x2 padding=0x0x0 dilation=1x1x1)" + on_x);
  CHECK(absl::StrContains(kept(NormPass{.activation = Relu{}, .sink = MaxPool{}}),
                          "pool=(kernel=2x2x2 stride=2x2x2 padding=0x0x0 dilation=1x1x1)"));
  // A part that is smaller than the volume is no window that does not move.
  CHECK(kept(Crop{.size = {1, 1, 4}}) == "size=1x1x4 offset=0x0x0" + on_x);
  CHECK(kept(ZeroPad{.right = 1}) == ZeroPad{.right = 1}.Parameters() + on_x);
}

// All layers of networks of images, with windows that move.
const std::vector<Layer> kLayers = {Convolution{.out_channels = 4, .kernel = 2},
                                    TransposedConvolution{.out_channels = 4, .kernel = 2},
                                    FullyConnected{.out_features = 3},
                                    BatchNorm{},
                                    GroupNorm{},
                                    InstanceNorm{},
                                    LayerNorm{},
                                    Softmax{.axis = 2},
                                    LocalResponseNorm{},
                                    Relu{},
                                    Sigmoid{},
                                    Tanh{},
                                    HardSigmoid{},
                                    HardSwish{},
                                    Silu{},
                                    Gelu{},
                                    Elu{},
                                    Softplus{},
                                    Mish{},
                                    LeakyRelu{},
                                    Prelu{},
                                    PositionEmbedding{},
                                    ScaleShift{},
                                    ScaleShift{.learns_scale = true},
                                    Clip{},
                                    Dropout{},
                                    StochasticDepth{},
                                    MaxPool{},
                                    AveragePool{},
                                    GlobalAveragePool{},
                                    AdaptiveAveragePool{.size = 2},
                                    Resize{.scales = {2}},
                                    PixelShuffle{.factor = 1},
                                    PixelUnshuffle{},
                                    Reshape{{-1, 6}},
                                    WindowPartition{2},
                                    Roll{1},
                                    Tile{.repeats = 2},
                                    Crop{.size = 2},
                                    ChannelShuffle{},
                                    ChannelSlice{},
                                    ChannelSplit{.channels = {1, 3}},
                                    ZeroPad{.right = 1},
                                    Add{},
                                    Concat{},
                                    Multiply{},
                                    SoftmaxCrossEntropy{},
                                    LinearCrossEntropy{.classes = 3},
                                    MeanSquaredError{},
                                    BinaryCrossEntropy{},
                                    FocalLoss{},
                                    DiceLoss{}};

// Whether the CPU lists kernels for all steps of the layer with so many spatial axes.
bool HasKernels(Backend& backend, const Layer& layer, int axes) {
  const std::vector<int64_t> extents(static_cast<size_t>(axes), 6);
  std::vector<TensorSpec> inputs = {{.shape = SpatialShape(2, 4, extents)}};
  if (MakesSoftmax(layer) || layer.As<LinearCrossEntropy>() != nullptr) {
    inputs.push_back({.shape = LabelShape(inputs[0].shape), .dtype = DType::kInt32});
  } else if (!layer.Specify({.inputs = inputs}).ok()) {
    inputs.push_back(inputs[0]);
  }
  const absl::StatusOr<LayerSpec> spec = layer.Specify({.inputs = inputs});
  if (!spec.ok()) return false;
  return std::all_of(spec->steps.begin(), spec->steps.end(), [&](const StepSpec& step) {
    return backend.Engines(SignatureOf(layer, step.phase, inputs).value()).ok();
  });
}

TEST_CASE("all layers have kernels for one to three spatial axes") {
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  for (const Layer& layer : kLayers) {
    CAPTURE(layer.type());
    for (int axes = 1; axes <= kMaxSpatialAxes; ++axes) {
      CAPTURE(axes);
      CHECK(HasKernels(*backend, layer, axes));
    }
  }
}

}  // namespace
}  // namespace neap
