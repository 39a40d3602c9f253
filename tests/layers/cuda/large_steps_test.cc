// Steps of tensors of 2^31 elements and more. Needs cuDNN, but no GPU.
#include <doctest/doctest.h>

#include <string>

#include "absl/strings/match.h"
#include "neap/core/step/signature_text.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/conv/measured_parts.h"
#include "neap/layers/convolution.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fusion/fused_convolution.h"
#include "neap/layers/fusion/fused_relu.h"
#include "neap/layers/fusion/norm_pass.h"
#include "neap/layers/fusion/residual_tail.h"
#include "neap/layers/loss/dice_loss.h"
#include "neap/layers/pooling.h"
#include "neap/layers/scale_shift.h"
#include "tests/layers/cuda/described_h200.h"

namespace neap::testing {
namespace {

const Shape kPlaneOf2e9 = {1, 1, 1300, 1300, 1300};

// Whether engines of the step are listed. If not, the reason is the number of elements.
bool IsListed(EngineCatalog& catalog, const StepSignature& step) {
  const absl::StatusOr<std::vector<Engine>> engines = catalog.Engines(step);
  if (engines.ok()) return true;
  CAPTURE(SignatureText(step));
  CHECK(absl::IsUnimplemented(engines.status()));
  CHECK(absl::StrContains(engines.status().message(), "elements"));
  return false;
}

// Forward, or backward_data.
bool IsListed(EngineCatalog& catalog, Phase phase, const Layer& layer, const TensorSpec& x) {
  for (const StepSignature& step : Signatures(layer, x)) {
    if (step.phase == phase) return IsListed(catalog, step);
  }
  return false;
}

TEST_CASE("poolings of images with too many vectors for 32 bits are refused when they are listed") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  const auto is_listed = [&](Phase phase, const Layer& layer, const Shape& shape,
                             Layout layout = Layout::kChannelsFirst) {
    return IsListed(*catalog, phase, layer, {shape, DType::kBf16, layout});
  };
  const MaxPool along_planes = {.kernel = {1, 2, 2}, .stride = {1, 2, 2}};
  for (const Layer& pool : {Layer(MaxPool{}), Layer(AveragePool{})}) {
    CHECK(is_listed(Phase::kForward, pool, kPlaneOf2e9));
    CHECK_FALSE(is_listed(Phase::kBackwardData, pool, kPlaneOf2e9));
    // With channels last, 8 elements are a vector.
    const Shape channels_last = {1, 16, 1300, 1300, 256};
    CHECK(is_listed(Phase::kBackwardData, pool, channels_last, Layout::kChannelsLast));
    const Shape odd = {1, 17, 1300, 1300, 256};
    CHECK_FALSE(is_listed(Phase::kBackwardData, pool, odd, Layout::kChannelsLast));
  }
  CHECK(is_listed(Phase::kBackwardData, along_planes, kPlaneOf2e9));
}

TEST_CASE("Dice counts positions, not elements") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  const auto is_listed = [&](const Shape& logits) {
    const LayerContext context = {
        .inputs = {
            {logits, DType::kBf16, Layout::kChannelsLast},
            {.shape = {logits.n(), logits.d(), logits.h(), logits.w()}, .dtype = DType::kInt32}}};
    const LayerSpec spec = NnUNetLoss().Specify(context).value();
    for (const StepSpec& step : spec.steps) {
      const StepSignature signature =
          SignatureOf(step, {.layer = NnUNetLoss(), .spec = spec, .inputs = context.inputs});
      if (!IsListed(*catalog, signature)) return false;
    }
    return true;
  };
  CHECK(is_listed({2, 118, 192, 192, 192}));
  CHECK_FALSE(is_listed({2, 2, 1300, 1300, 1300}));
}

TEST_CASE("fused poolings that take an image of each channel at once count those of all channels") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  for (const Layer& layer : {Layer(FusedRelu{.bias = true, .pool = MaxPool{}}),
                             Layer(NormPass{.activation = Relu{}, .sink = MaxPool{}})}) {
    const auto is_listed = [&](int64_t channels) {
      return IsListed(*catalog, Phase::kForward, layer, {{1, channels, 1024, 1024, 1024}});
    };
    CHECK(is_listed(15));
    CHECK_FALSE(is_listed(16));
  }
}

TEST_CASE("maps with values per channel are refused for planes of 2^31 positions") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  const auto is_listed = [&](const Layer& layer, const TensorSpec& x) {
    const LayerSpec spec = layer.Specify({.inputs = {x}, .mode = Mode::kInference}).value();
    return IsListed(*catalog,
                    SignatureOf(spec.steps[0], {.layer = layer, .spec = spec, .inputs = {x}}));
  };
  CHECK_FALSE(is_listed(BatchNorm{}, {kPlaneOf2e9}));
  CHECK(is_listed(BatchNorm{}, {.shape = kPlaneOf2e9, .layout = Layout::kChannelsLast}));
  CHECK(is_listed(BatchNorm{}, {{4, 3, 1024, 1024, 1024}}));
  const TensorSpec image = {{1, 1, 65536, 32768}};
  CHECK_FALSE(is_listed(Convolution{.out_channels = 1}, image));
  CHECK(is_listed(Convolution{.out_channels = 1, .bias = false}, image));
}

TEST_CASE("ends of residual branches take images of 2^31 elements, as the layers apart do") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  const auto is_listed = [&](const ResidualTail& tail, const TensorSpec& x) {
    const LayerContext context = {.inputs = {x, x}};
    const LayerSpec spec = tail.Specify(context).value();
    for (const StepSpec& step : spec.steps) {
      const StepSignature signature =
          SignatureOf(step, {.layer = tail, .spec = spec, .inputs = context.inputs});
      if (!IsListed(*catalog, signature)) return false;
    }
    return true;
  };
  const ScaleShift fixed = {.scale = 0.5F}, learned = {.learns_scale = true};
  const StochasticDepth drop = {.rate = 0.2F};
  for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    const TensorSpec x = {{1, 32, 256, 512, 512}, DType::kFp16, layout};
    CHECK(is_listed({.scale = fixed}, x));
    CHECK(is_listed({.drop = drop}, x));
    CHECK(is_listed({.scale = learned, .drop = drop}, x));
  }
  CHECK(is_listed({.scale = fixed, .drop = drop}, {kPlaneOf2e9}));
  CHECK_FALSE(is_listed({.scale = learned}, {kPlaneOf2e9}));
}

TEST_CASE("convolutions of volumes of 2^31 elements are refused by name, but not their parts") {
  const std::unique_ptr<EngineCatalog> catalog = CatalogOrSkip();
  if (!catalog) return;
  const Convolution layer = {.out_channels = 32, .kernel = 3, .padding = 1};
  const TensorSpec x = {{2, 8, 512, 512, 128}, DType::kBf16, Layout::kChannelsLast};
  for (const Layer& conv : {Layer(layer), Layer(FusedConvolution{layer})}) {
    for (const StepSignature& step : Signatures16(conv, x)) {
      if (step.phase == Phase::kBackwardActivation) continue;
      CAPTURE(SignatureText(step));
      CHECK(absl::StrContains(catalog->Engines(step).status().message(),
                              "cuDNN's convolutions of volumes are not used for tensors of 2^31 "
                              "elements and more, such as 2x32x512x512x128 bf16 ndhwc"));
      CHECK(WholeEngines(step, DivisionPolicy::kPowerOfTwo, *catalog)->empty());
      CHECK_FALSE(catalog->Engines(WithBatch(step, 1))->empty());
    }
  }
  // Planes are images.
  const Convolution of_planes = {.out_channels = 32, .kernel = {1, 3, 3}, .padding = {0, 1, 1}};
  for (const StepSignature& step : Signatures16(of_planes, x)) CHECK(IsListed(*catalog, step));
}

}  // namespace
}  // namespace neap::testing
