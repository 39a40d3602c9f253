#include "neap/core/plan/cost_features.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "neap/core/base/units.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/activation.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/devices/device_description.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/pooling.h"
#include "neap/layers/tokens/embedding.h"
#include "neap/layers/tokens/position_embedding.h"
#include "neap/layers/tokens/prepend_token.h"

namespace neap {
namespace {

using doctest::Approx;
using F = CostFeatures;

CostFeatures Of(const Layer& layer, Phase phase, const TensorSpec& input, double flops = 0) {
  return FeaturesOf(SignatureOf(layer, phase, {input}).value(), flops,
                    DescribedDevice("h200").value());
}

double At(const CostFeatures& features, F::Index index) {
  return features.values[static_cast<size_t>(index)];
}

TEST_CASE("the features of a convolution are those computed by hand") {
  const TensorSpec x = {{32, 64, 56, 56}, DType::kBf16, Layout::kChannelsLast};
  const Convolution layer = {
      .out_channels = 128, .kernel = 3, .stride = 2, .padding = 1, .bias = false};
  // 32 x 128 x 28 x 28 results of 64 x 9 products each.
  const double flops = 2.0 * 3'211'264 * 576;
  const StepSignature signature = SignatureOf(layer, Phase::kForward, {x}).value();
  const CostFeatures features = FeaturesOf(signature, flops, DescribedDevice("h200").value());
  CHECK(features.kind == "convolution dense forward 16-bit nhwc");
  CHECK(features.group == "dense forward 16-bit nhwc");
  CHECK(features.family == "dense forward");

  // Read are 6,422,528 numbers and a weight of 73,728, written 3,211,264, all of 16 bits.
  const double bytes = 2 * (6'422'528 + 73'728 + 3'211'264);
  const double arithmetic = flops / 790e12, memory = bytes / 4.3e12;
  CHECK(arithmetic == Approx(4.683e-6).epsilon(1e-3));
  CHECK(memory == Approx(4.515e-6).epsilon(1e-3));
  CHECK(features.bound_seconds == Approx(2e-6 + arithmetic));
  CHECK(At(features, F::kOne) == 1);
  CHECK(At(features, F::kBalance) == Approx(std::log2(arithmetic / memory)));
  CHECK(At(features, F::kImbalance) == Approx(std::log2(arithmetic / memory)));
  CHECK(At(features, F::kInputChannels) == 6);
  CHECK(At(features, F::kOutputChannels) == 7);
  CHECK(At(features, F::kMaxChannels) == 7);
  CHECK(At(features, F::kMoreInputChannels) == 0);
  CHECK(At(features, F::kMoreOutputChannels) == 1);
  CHECK(At(features, F::kPixels) == Approx(std::log2(32 * 28 * 28)));
  CHECK(At(features, F::kMorePixels) == 0);  // 25,088 are less than 2^16
  CHECK(At(features, F::kTaps) == Approx(std::log2(9)));
  CHECK(At(features, F::kStride) == Approx(1));
  CHECK(At(features, F::kAsymmetric) == 0);
  CHECK(At(features, F::kFewInputChannels) == 0);
  CHECK(At(features, F::kFewOutputChannels) == 0);
  CHECK(At(features, F::kRaggedInputChannels) == 0);
  CHECK(At(features, F::kRaggedOutputChannels) == 0);
  CHECK(At(features, F::kBytes) == Approx(std::log2(bytes)));
  CHECK(At(features, F::kManyBytes) == 0);  // 19 MB
  CHECK(At(features, F::kVeryManyBytes) == 0);
  CHECK(At(features, F::kWork) == Approx(std::log2(2 * 576)));
}

TEST_CASE("windows and pixels of volumes count along all axes") {
  const TensorSpec x = {{4, 64, 16, 24, 32}, DType::kBf16, Layout::kChannelsLast};
  const CostFeatures cubic = Of(
      Convolution{.out_channels = 64, .kernel = 3, .stride = 2, .padding = 1}, Phase::kForward, x);
  CHECK(At(cubic, F::kTaps) == Approx(std::log2(27)));
  CHECK(At(cubic, F::kStride) == Approx(1));
  CHECK(At(cubic, F::kAsymmetric) == 0);
  CHECK(At(cubic, F::kPixels) == Approx(std::log2(4 * 8 * 12 * 16)));
  const CostFeatures flat =
      Of(Convolution{.out_channels = 64, .kernel = {1, 3, 3}, .padding = {0, 1, 1}},
         Phase::kForward, x);
  CHECK(At(flat, F::kTaps) == Approx(std::log2(9)));
  CHECK(At(flat, F::kStride) == 0);
  CHECK(At(flat, F::kAsymmetric) == 1);
}

TEST_CASE("few and ragged channels, windows that are no squares and many bytes are told apart") {
  const Convolution stem = {.out_channels = 24, .kernel = {7, 1}, .padding = {3, 0}, .bias = false};
  const CostFeatures features =
      Of(stem, Phase::kForward, {{256, 3, 224, 224}, DType::kFp32, Layout::kChannelsFirst}, 1);
  CHECK(At(features, F::kFewInputChannels) == 1);
  CHECK(At(features, F::kFewOutputChannels) == 1);
  CHECK(At(features, F::kRaggedInputChannels) == 1);
  CHECK(At(features, F::kRaggedOutputChannels) == 1);
  CHECK(At(features, F::kAsymmetric) == 1);
  CHECK(At(features, F::kTaps) == Approx(std::log2(7)));
  CHECK(At(features, F::kStride) == 0);
  CHECK(At(features, F::kPixels) == 20);  // 12,845,056 are more
  CHECK(At(features, F::kMorePixels) == 4);
  CHECK(At(features, F::kBytes) == 29);  // 27 x 12,845,056 x 4 bytes are more
  CHECK(At(features, F::kManyBytes) == 4);
  CHECK(At(features, F::kVeryManyBytes) == 1);
}

TEST_CASE("channels are those of a group") {
  const TensorSpec x = {{8, 96, 14, 14}, DType::kFp16, Layout::kChannelsLast};
  const auto in_groups = [&](int64_t groups) {
    return Of(Convolution{.out_channels = 192, .kernel = 3, .padding = 1, .groups = groups},
              Phase::kForward, x, 1);
  };
  CHECK(in_groups(1).group == "dense forward 16-bit nhwc");
  CHECK(At(in_groups(1), F::kInputChannels) == Approx(std::log2(96)));
  CHECK(in_groups(3).group == "grouped forward 16-bit nhwc");
  CHECK(At(in_groups(3), F::kInputChannels) == 5);
  CHECK(At(in_groups(3), F::kOutputChannels) == 6);
  CHECK(in_groups(96).group == "depthwise forward 16-bit nhwc");
  CHECK(At(in_groups(96), F::kInputChannels) == 0);
  CHECK(At(in_groups(96), F::kOutputChannels) == 1);
}

TEST_CASE("input and output stay the same in backward steps") {
  const TensorSpec x = {{8, 64, 14, 14}, DType::kTf32, Layout::kChannelsFirst};
  const Convolution layer = {.out_channels = 256, .kernel = 1};
  for (const Phase phase : {Phase::kForward, Phase::kBackwardData, Phase::kBackwardParams}) {
    const CostFeatures features = Of(layer, phase, x, 1);
    CHECK(features.family == "dense " + std::string(Name(phase)));
    CHECK(features.group == features.family + " tf32 nchw");
    CHECK(At(features, F::kInputChannels) == 6);
    CHECK(At(features, F::kOutputChannels) == 8);
    CHECK(At(features, F::kPixels) == Approx(std::log2(8 * 14 * 14)));
  }
}

TEST_CASE("a step without products of matrices is a pass over memory, bound by its bytes") {
  const TensorSpec x = {{16, 32, 28, 28}, DType::kFp32, Layout::kChannelsFirst};
  const CostFeatures relu = Of(Relu{}, Phase::kForward, x);
  CHECK(relu.kind == "relu forward fp32 nchw");
  CHECK(relu.group == "relu forward");
  CHECK(relu.family == "pass");
  CHECK(relu.bound_seconds == Approx(2e-6 + 2.0 * 4 * 16 * 32 * 28 * 28 / 4.3e12));
  CHECK(At(relu, F::kBalance) == 0);
  CHECK(At(relu, F::kTaps) == 0);
  CHECK(At(relu, F::kWork) == -4);
  const CostFeatures pool = Of(MaxPool{.kernel = 2, .stride = 2}, Phase::kForward, x);
  CHECK(pool.family == "pass");
  CHECK(At(pool, F::kStride) == Approx(1));
  CHECK(At(pool, F::kPixels) == Approx(std::log2(16 * 14 * 14)));
}

TEST_CASE("a pass over more bytes than the cache holds takes at least the time of the others") {
  // 60 MiB of an H200's cache.
  const auto least = [](const Layer& layer, int64_t batch) {
    return Of(layer, Phase::kForward, {{batch, 1024, 64, 64}}).least_seconds;
  };
  CHECK(least(Relu{}, 1) == 0);  // 32 MiB
  CHECK(least(Relu{}, 2) == Approx(4.0 * kMiB / 4.3e12));
  CHECK(least(Relu{}, 64) == Approx((2048.0 - 60) * kMiB / 4.3e12));
  CHECK(least(Convolution{.out_channels = 64, .kernel = 1, .stride = 2}, 64) == 0);
}

TEST_CASE("a fully connected layer is a product of matrices") {
  const CostFeatures features = Of(FullyConnected{.out_features = 1000}, Phase::kForward,
                                   {{256, 2048, 1, 1}, DType::kBf16, Layout::kChannelsLast}, 1);
  CHECK(features.group == "dense forward 16-bit nhwc");
  CHECK(features.kind == "fully_connected dense forward 16-bit nhwc");
  CHECK(At(features, F::kInputChannels) == 11);
  CHECK(At(features, F::kOutputChannels) == Approx(std::log2(1000)));
  CHECK(At(features, F::kRaggedOutputChannels) == 1);
}

TEST_CASE("reruns of norms and passes of inference have kinds of their own") {
  const TensorSpec x = {{16, 32, 28, 28}, DType::kFp32, Layout::kChannelsFirst};
  const DeviceDescription device = DescribedDevice("h200").value();
  const auto group_of = [&](const Layer& layer, bool rerun, Mode mode) {
    StepSignature signature = SignatureOf(layer, Phase::kForward, {x}).value();
    signature.rerun = rerun;
    signature.mode = mode;
    return FeaturesOf(signature, 0, device).group;
  };
  CHECK(group_of(Relu{}, true, Mode::kTraining) == "relu forward");
  CHECK(group_of(BatchNorm{}, true, Mode::kTraining) == "batch_norm forward rerun");
  CHECK(group_of(LayerNorm{}, true, Mode::kTraining) == "layer_norm forward rerun");
  CHECK(group_of(Relu{}, false, Mode::kInference) == "relu forward inference");
}

TEST_CASE("layers whose parameters multiply nothing are passes") {
  const TensorSpec x = {{4, 64, 32}, DType::kBf16, Layout::kChannelsLast};
  const auto family_of = [&](const Layer& layer, Phase phase) {
    return Of(layer, phase, x, /*flops=*/1e9).family;
  };
  const Attention attention = {.heads = 4, .kv_heads = 2, .learned_bias = true};
  for (const Phase phase : {Phase::kForward, Phase::kBackwardData})
    CHECK(family_of(attention, phase) == "pass");
  CHECK(family_of(PositionEmbedding{}, Phase::kForward) == "pass");
  CHECK(family_of(PrependToken{}, Phase::kForward) == "pass");
  const TensorSpec ids = {{4, 32}, DType::kInt32};
  CHECK(Of(Embedding{.vocabulary = 100, .channels = 64}, Phase::kForward, ids).family == "pass");
  CHECK(family_of(Convolution{.out_channels = 8}, Phase::kForward) == "dense forward");
}

TEST_CASE("an addition of gradients reads its sum and writes it") {
  const TensorSpec spec = {{4, 8, 16, 16}};
  const CostFeatures features =
      FeaturesOf(AdditionSignature(spec), 0, DescribedDevice("h200").value());
  CHECK(features.kind == "add forward fp32 nchw");
  CHECK(features.bound_seconds == Approx(2e-6 + 3.0 * 4 * 8 * 16 * 16 * 4 / 4.3e12));
}

TEST_CASE("a device without rates has no bound but a launch") {
  const StepSignature relu = SignatureOf(Relu{}, Phase::kForward, {{{4, 4, 4, 4}}}).value();
  CHECK(FeaturesOf(relu, 1e9, DeviceDescription{}).bound_seconds == kLaunchSeconds);
}

}  // namespace
}  // namespace neap
