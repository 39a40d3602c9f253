#include "neap/layers/catalog/kernel_axes.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/graph/source.h"
#include "neap/core/step/operands.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/channel_shuffle.h"
#include "neap/layers/channel_slice.h"
#include "neap/layers/channel_split.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cpu/cpu_backend.h"
#include "neap/layers/crop.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/fusion/norm_pass.h"
#include "neap/layers/join.h"
#include "neap/layers/lrn.h"
#include "neap/layers/multiply.h"
#include "neap/layers/pooling.h"
#include "neap/layers/prelu.h"
#include "neap/layers/resize/pixel_shuffle.h"
#include "neap/layers/resize/resize.h"
#include "neap/layers/scale_shift.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"
#include "neap/layers/transposed_convolution.h"
#include "neap/layers/zero_pad.h"
#include "tests/scratch_directory.h"
#include "tests/source_tree.h"

namespace neap {
namespace {

using namespace operands;

StepSignature Forward(const Layer& layer, const std::vector<TensorSpec>& inputs) {
  return SignatureOf(layer, Phase::kForward, inputs).value();
}

StepSignature Viewed(const Layer& layer, const std::vector<TensorSpec>& inputs) {
  const absl::StatusOr<StepSignature> viewed = AsImages(Forward(layer, inputs), "a device");
  REQUIRE_MESSAGE(viewed.ok(), viewed.status().ToString());
  return *viewed;
}

std::string ErrorOf(const Layer& layer, const TensorSpec& x) {
  return std::string(AsImages(Forward(layer, {x}), "a device").status().message());
}

TEST_CASE("a step of images stays as it is") {
  for (const Layer& layer : {Layer(Relu{}), Layer(Convolution{.out_channels = 2, .kernel = 3})}) {
    const StepSignature step = Forward(layer, {{.shape = {2, 3, 5, 6}}});
    CHECK(*AsImages(step, "a device") == step);
  }
  const StepSignature labelled =
      Forward(SoftmaxCrossEntropy{},
              {{.shape = {2, 3, 5, 6}}, {.shape = {2, 5, 6}, .dtype = DType::kInt32}});
  CHECK(*AsImages(labelled, "a device") == labelled);
}

TEST_CASE("a step whose kernels take all axes stays as it is") {
  for (const Layer& layer : {Layer(Resize{.scales = {2}}), Layer(AdaptiveAveragePool{.size = 2}),
                             Layer(PixelShuffle{}), Layer(PixelUnshuffle{})}) {
    for (const Shape& shape : {Shape{2, 8, 6}, Shape{2, 8, 4, 6, 2}}) {
      for (const Phase phase : {Phase::kForward, Phase::kBackwardData}) {
        const StepSignature step = *SignatureOf(layer, phase, {{.shape = shape}});
        CHECK(*AsImages(step, "a device") == step);
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
  const Layer along_width = MaxPool{.kernel = {1, 1, 3}, .stride = {1, 1, 2}};
  CHECK(Viewed(along_width, {{{2, 3, 4, 5, 7}}}).Spec(Y()).shape == Shape{2, 3, 20, 3});
  const Layer along_depth = MaxPool{.kernel = {3, 1, 1}, .stride = {2, 1, 1}};
  CHECK(Viewed(along_depth, {{{2, 3, 7, 5, 6}}}).Spec(Y()).shape == Shape{2, 3, 3, 30});
  CHECK(Viewed(along_depth, {{{2, 3, 7, 5, 6}}}).layer.Parameters() ==
        "kernel=3x1 stride=2x1 padding=0x0");
}

TEST_CASE("windows for which there are no kernels are refused by type, axes and device") {
  const TensorSpec x = {.shape = {2, 4, 8, 8, 8}};
  const auto refused = [](const std::string& type) {
    return "a device has no kernel for " + type + " with 3 spatial axes, only with 1 or 2";
  };
  CHECK(ErrorOf(Convolution{.out_channels = 4, .kernel = 3}, x) == refused("convolution"));
  CHECK(ErrorOf(Convolution{.out_channels = 4, .kernel = {1, 3, 1}}, x) == refused("convolution"));
  CHECK(ErrorOf(Convolution{.out_channels = 4, .kernel = {3, 1, 3}}, x) == refused("convolution"));
  CHECK(ErrorOf(MaxPool{}, x) == refused("max_pool"));
  CHECK(ErrorOf(AveragePool{}, x) == refused("average_pool"));
  CHECK(ErrorOf(NormPass{.activation = Relu{}, .sink = MaxPool{}}, x) == refused("norm_pass"));
  // A part that is smaller than the volume is no window that does not move.
  CHECK(ErrorOf(Crop{.size = {1, 1, 4}}, x) == refused("crop"));
  CHECK(ErrorOf(ZeroPad{.right = 1}, x) == refused("zero_pad"));
}

// All layers of the table in docs/own-network.md, with windows that move.
const std::vector<std::pair<std::string, Layer>> kLayers = {
    {"Convolution", Convolution{.out_channels = 4, .kernel = 2}},
    {"TransposedConvolution", TransposedConvolution{.out_channels = 4, .kernel = 2}},
    {"FullyConnected", FullyConnected{.out_features = 3}},
    {"BatchNorm", BatchNorm{}},
    {"LocalResponseNorm", LocalResponseNorm{}},
    {"Relu", Relu{}},
    {"Sigmoid", Sigmoid{}},
    {"Tanh", Tanh{}},
    {"HardSigmoid", HardSigmoid{}},
    {"HardSwish", HardSwish{}},
    {"Silu", Silu{}},
    {"Gelu", Gelu{}},
    {"Elu", Elu{}},
    {"Softplus", Softplus{}},
    {"Mish", Mish{}},
    {"LeakyRelu", LeakyRelu{}},
    {"Prelu", Prelu{}},
    {"ScaleShift", ScaleShift{}},
    {"Clip", Clip{}},
    {"Dropout", Dropout{}},
    {"MaxPool", MaxPool{}},
    {"AveragePool", AveragePool{}},
    {"GlobalAveragePool", GlobalAveragePool{}},
    {"AdaptiveAveragePool", AdaptiveAveragePool{.size = 2}},
    {"Resize", Resize{.scales = {2}}},
    {"PixelShuffle", PixelShuffle{.factor = 1}},
    {"PixelUnshuffle", PixelUnshuffle{}},
    {"Crop", Crop{.size = 2}},
    {"ChannelShuffle", ChannelShuffle{}},
    {"ChannelSlice", ChannelSlice{}},
    {"ChannelSplit", ChannelSplit{.channels = {1, 3}}},
    {"ZeroPad", ZeroPad{.right = 1}},
    {"Add", Add{}},
    {"Concat", Concat{}},
    {"Multiply", Multiply{}},
    {"SoftmaxCrossEntropy", SoftmaxCrossEntropy{}},
    {"MeanSquaredError", MeanSquaredError{}},
    {"BinaryCrossEntropy", BinaryCrossEntropy{}}};

// Whether the CPU lists kernels for the layer with so many spatial axes.
bool HasKernels(Backend& backend, const Layer& layer, int axes) {
  const std::vector<int64_t> extents(static_cast<size_t>(axes), 6);
  std::vector<TensorSpec> inputs = {{.shape = SpatialShape(2, 4, extents)}};
  if (layer.As<SoftmaxCrossEntropy>() != nullptr) {
    inputs.push_back({.shape = LabelShape(inputs[0].shape), .dtype = DType::kInt32});
  } else if (!layer.Specify({.inputs = inputs}).ok()) {
    inputs.push_back(inputs[0]);
  }
  const absl::StatusOr<StepSignature> step = SignatureOf(layer, Phase::kForward, inputs);
  if (!step.ok()) return false;
  const absl::StatusOr<std::vector<Engine>> engines = backend.Engines(*step);
  if (!engines.ok()) CHECK(absl::IsUnimplemented(engines.status()));
  return engines.ok();
}

TEST_CASE("the documentation says which kernels there are") {
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  const std::string text = ReadText((SourceTree() / "docs/own-network.md").string());
  for (const auto& [type, layer] : kLayers) {
    const std::string name = type;
    CAPTURE(name);
    std::vector<int> axes;
    for (int i = 1; i <= kMaxSpatialAxes; ++i) {
      if (HasKernels(*backend, layer, i)) axes.push_back(i);
    }
    const std::string row = absl::StrCat("\n| ", absl::StrJoin(axes, ", "), " | ");
    const size_t begin = text.find(row);
    REQUIRE(begin != std::string::npos);
    const std::string line = text.substr(begin, text.find('\n', begin + 1) - begin);
    CHECK(line.find("`" + name + "`") != std::string::npos);
  }
}

}  // namespace
}  // namespace neap
