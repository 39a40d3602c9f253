// The CPU's kernels against the float64 reference, over all cases.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <dnnl.hpp>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include "neap/core/base/philox.h"
#include "neap/core/step/step_signature.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cpu/cpu_backend.h"
#include "neap/layers/dropout.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "tests/layers/activation_checks.h"
#include "tests/layers/addend_checks.h"
#include "tests/layers/conformance.h"
#include "tests/layers/fusion/activated_group_norm_checks.h"
#include "tests/layers/fusion/biased_gelu_checks.h"
#include "tests/layers/fusion/residual_tail_checks.h"
#include "tests/layers/fusion_checks.h"
#include "tests/layers/image_norm_checks.h"
#include "tests/layers/loss_checks.h"
#include "tests/layers/sub_batch_checks.h"
#include "tests/layers/token_checks.h"
#include "tests/layers/update_checks.h"

namespace neap::testing {
namespace {

using namespace operands;

// |got - want| <= kTolerance * max(1, largest |want|), for fp32 sums of up to some thousand terms.
// Winograd's F(4x4, 3x3) is within it: it accumulates more rounding than a direct sum (Lavin and
// Gray, "Fast Algorithms for Convolutional Neural Networks", 2015), on these cases some 4 times as
// much, at most 1.8e-6 in 20 seeds.
constexpr double kTolerance = 2e-5;

// Each case in one of the types, by turns, or of `parts` parts only one, by the seed.
void CheckAllCases(uint32_t seed, const std::vector<DType>& types, size_t parts = 1) {
  CAPTURE(seed);
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  const DeviceAccess access = HostAccess();
  const std::vector<LayerCase> cases = AllLayerCases(seed);
  for (size_t i = seed % parts; i < cases.size(); i += parts) {
    const LayerCase typed = WithDType(cases[i], types[(seed + i) % types.size()]);
    const ConformanceOptions options = {.tolerance = kTolerance, .seed = seed};
    for (const std::string& failure : ConformanceFailures(*backend, access, typed, options)) {
      FAIL_CHECK(failure);
    }
  }
}

const float kNan = std::numeric_limits<float>::quiet_NaN();

absl::StatusOr<Values> Forward(const Layer& layer, const std::vector<TensorSpec>& inputs,
                               const Values& given, uint64_t layer_seed = 1) {
  const absl::StatusOr<LayerSpec> spec = layer.Specify({.inputs = inputs});
  if (!spec.ok()) return spec.status();
  const StepSignature signature = SignatureOf(
      spec->steps[0], {.layer = layer, .spec = *spec, .inputs = inputs, .layer_seed = layer_seed});
  return RunStep(*MakeCpuBackend(), HostAccess(), signature, given);
}

#ifdef NEAP_SANITIZED  // several times as slow
TEST_CASE("half of the CPU's kernels, on shapes of a new seed, agree with the reference") {
  const uint32_t seed = std::random_device{}();
  MESSAGE("seed ", seed);
  CheckAllCases(seed, {DType::kFp32, DType::kFp16, DType::kBf16}, 2);
}
#else
TEST_CASE("CPU kernels agree with the reference for every engine, in place and as reruns") {
  CheckAllCases(1, {DType::kFp32});
}

TEST_CASE("CPU kernels agree with the reference on shapes of a new seed, in 16 bits") {
  const uint32_t seed = std::random_device{}();
  MESSAGE("seed ", seed);
  CheckAllCases(seed, {DType::kFp16, DType::kBf16}, 2);
}
#endif

TEST_CASE("activations have PyTorch's values and gradients at their corners on a CPU") {
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    CheckActivationCorners(*MakeCpuBackend(), HostAccess(), dtype);
}

TEST_CASE("a batch norm of parts has the bits of a concatenation and a batch norm on a CPU") {
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    CheckBatchNormOfParts(*MakeCpuBackend(), HostAccess(), dtype);
}

TEST_CASE("a concatenation of batch norms has the bits of separate layers on a CPU") {
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    CheckConcatBatchNorms(*MakeCpuBackend(), HostAccess(), dtype);
}

TEST_CASE("an averaged batch norm has the bits of a batch norm and a global pooling on a CPU") {
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    CheckAveragedBatchNorm(*MakeCpuBackend(), HostAccess(), dtype);
}

TEST_CASE("a batch norm with an activation has the bits of both layers on a CPU") {
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    CheckActivatedNorm(*MakeCpuBackend(), HostAccess(), dtype);
}

TEST_CASE("a group norm with an activation has the bits of both layers on a CPU") {
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    CheckActivatedGroupNorm(*MakeCpuBackend(), HostAccess(), dtype);
}

TEST_CASE("a GELU with the bias before it has the bits of both layers on a CPU") {
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    CheckBiasedGelu(*MakeCpuBackend(), HostAccess(), dtype);
}

TEST_CASE("the end of a residual branch has the bits of its layers and the sum on a CPU") {
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    CheckResidualTail(*MakeCpuBackend(), HostAccess(), dtype);
}

TEST_CASE("every engine computes the gradients of strided weights with the same bits each time") {
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  const auto check = [&](const Convolution& layer, const TensorSpec& x) {
    const LayerSpec spec = layer.Specify({.inputs = {x}}).value();
    const Values given = RandomValues({.name = "", .layer = layer, .inputs = {x}}, spec, 3);
    const StepSignature signature = SignatureOf(layer, Phase::kBackwardParams, {x}).value();
    const std::vector<Engine> engines = backend->Engines(signature).value();
    CHECK(!engines.empty());
    for (const Engine& engine : engines) {
      CAPTURE(engine.id);
      const auto run = [&] {
        return RunStep(*backend, HostAccess(), signature, given, {.engine = engine.id}).value();
      };
      const Values first = run();
      int different = 0;
      for (int i = 0; i < 100; ++i) different += run() == first ? 0 : 1;
      CHECK(different == 0);
    }
  };
  for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    check({.out_channels = 9, .stride = {1, 3}}, {{1, 6, 9, 9}, DType::kFp32, layout});
    check({.out_channels = 9, .stride = {2, 1, 3}}, {{1, 6, 4, 5, 9}, DType::kFp32, layout});
  }
}

TEST_CASE("a NaN wins over every number in a max pool, and passes through activations") {
  const TensorSpec x = {.shape = {1, 1, 2, 8}};
  std::vector<double> values(16, 1.0);
  values[3] = kNan;
  const auto pooled = Forward(MaxPool{}, {x}, {{X(), values}});
  REQUIRE(pooled.ok());
  CHECK(pooled->at(Y())[0] == 1);
  CHECK(std::isnan(pooled->at(Y())[1]));
  CHECK(pooled->at(Saved(0))[1] == 1);
  for (const Layer& layer : {Layer(Relu{}), Layer(Sigmoid{}), Layer(Tanh{})}) {
    CAPTURE(std::string(layer.type()));
    const auto y = Forward(layer, {x}, {{X(), values}});
    REQUIRE(y.ok());
    CHECK(std::isnan(y->at(Y())[3]));
    CHECK_FALSE(std::isnan(y->at(Y())[4]));
  }
}

TEST_CASE("a max pool takes the first of equal elements") {
  const TensorSpec x = {.shape = {1, 1, 3, 3}};
  const auto y = Forward(MaxPool{.kernel = 3, .stride = 3, .padding = 0}, {x},
                         {{X(), {0, 1, 1, 0, 1, 0, 0, 0, 1}}});
  REQUIRE(y.ok());
  CHECK(y->at(Saved(0))[0] == 1);
  // The last axis of a volume runs fastest: elements 3, 5, and 6 of 2x2x2 are the largest.
  const auto of_volume =
      Forward(MaxPool{}, {{.shape = {1, 1, 2, 2, 2}}}, {{X(), {0, 0, 0, 1, 0, 1, 1, 0}}});
  REQUIRE(of_volume.ok());
  CHECK(of_volume->at(Saved(0))[0] == 3);
}

TEST_CASE("dropout repeats its mask, and another step, layer or session has another") {
  const TensorSpec x = {.shape = {2, 4, 8, 8}};
  const std::vector<double> ones(512, 1.0);
  const auto mask = [&](double step, double seed, uint64_t layer_seed) {
    return Forward(Dropout{0.5F}, {x}, {{X(), ones}, {Iteration(), {0.1, step, seed}}}, layer_seed)
        .value()
        .at(Y());
  };
  const std::vector<double> first = mask(1, 2, 3);
  CHECK(first == mask(1, 2, 3));
  CHECK(first != mask(2, 2, 3));
  CHECK(first != mask(1, 3, 3));
  CHECK(first != mask(1, 2, 4));
  const auto kept = std::count(first.begin(), first.end(), 2.0);
  CHECK(kept > 200);
  CHECK(kept < 312);
  CHECK(kept + std::count(first.begin(), first.end(), 0.0) == 512);
}

TEST_CASE("channels and images are dropped as a whole, the same ones in both layouts") {
  for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    const TensorSpec x = {.shape = {64, 8, 2, 3}, .layout = layout};
    const auto mask = [&](const Layer& layer) {
      const std::vector<double> ones(static_cast<size_t>(x.elements()), 1.0);
      return Forward(layer, {x}, {{X(), ones}, {Iteration(), {0.1, 1, 2}}}).value().at(Y());
    };
    for (const auto& [layer, elements] :
         {std::pair(Layer(Dropout{0.5F, true}), 6), std::pair(Layer(StochasticDepth{0.5F}), 48)}) {
      const std::vector<double> y = mask(layer);
      for (size_t i = 0; i < y.size(); ++i) {
        const auto unit = i / static_cast<size_t>(elements);
        const bool keep = DropoutKeeps(2, 1, 1, unit, 0.5F);
        CHECK(y[i] == (keep ? 2 : 0));
      }
    }
  }
}

TEST_CASE("a label outside the classes makes the loss NaN") {
  CheckLabelsOutsideClasses(*MakeCpuBackend(), HostAccess());
}

TEST_CASE("an image without a label adds nothing to the loss and is not correct") {
  CheckImagesWithoutLabels(*MakeCpuBackend(), HostAccess());
  CheckElementsWithoutTargets(*MakeCpuBackend(), HostAccess());
  CheckCertainFocalLoss(*MakeCpuBackend(), HostAccess());
  CheckDiceOfKnownLabels(*MakeCpuBackend(), HostAccess());
}

TEST_CASE("dropout and the loss compute in sub-batches what they compute for the whole batch") {
  CheckDropoutInSubBatches(*MakeCpuBackend(), HostAccess(), DType::kFp32);
  CheckResidualTailInSubBatches(*MakeCpuBackend(), HostAccess(), DType::kFp32);
  CheckLossInSubBatches(*MakeCpuBackend(), HostAccess());
}

TEST_CASE("ids that do not exist have no gradient, and the loss of tokens adds up its parts") {
  CheckIdsWithoutGradients(*MakeCpuBackend(), HostAccess());
  for (const DType dtype : {DType::kFp32, DType::kBf16})
    CheckTokenLossInParts(*MakeCpuBackend(), HostAccess(), dtype);
}

TEST_CASE("fully connected layers add up the gradients of sub-batches") {
  for (const DType dtype : {DType::kFp32, DType::kBf16})
    CheckFullyConnectedInSubBatches(*MakeCpuBackend(), HostAccess(), dtype);
}

TEST_CASE("norms of each image compute the same in sub-batches, and add up gradients") {
  for (const DType dtype : {DType::kFp32, DType::kBf16})
    CheckNormsInSubBatches(*MakeCpuBackend(), HostAccess(), dtype);
}

TEST_CASE("attention computes the same in sub-batches, and adds up the gradients of its bias") {
  for (const DType dtype : {DType::kFp32, DType::kBf16})
    CheckAttentionInSubBatches(*MakeCpuBackend(), HostAccess(), dtype);
}

TEST_CASE("norms of each image are accurate far from zero, and NaN spreads in its set alone") {
  CheckImageNormsFarFromZero(*MakeCpuBackend(), HostAccess());
  CheckImageNormsOfNan(*MakeCpuBackend(), HostAccess());
}

TEST_CASE("layers add what others have contributed to a gradient with the bits of a sum") {
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    CheckAddends(*MakeCpuBackend(), HostAccess(), dtype);
}

TEST_CASE("a layer norm has the same bits in both layouts on a CPU") {
  CheckLayerNormBitsOfLayouts(*MakeCpuBackend(), HostAccess());
}

TEST_CASE("the optimizer's steps take the tensors of many layers") {
  CheckManyUpdates(*MakeCpuBackend(), HostAccess());
  CheckManyGradients(*MakeCpuBackend(), HostAccess());
  CheckScaledUpdates(*MakeCpuBackend(), HostAccess());
  CheckGradientNorm(*MakeCpuBackend(), HostAccess());
  CheckManyStates(*MakeCpuBackend(), HostAccess());
}

std::vector<std::string> EngineIds(Backend& backend, const StepSignature& signature) {
  const absl::StatusOr<std::vector<Engine>> engines = backend.Engines(signature);
  REQUIRE(engines.ok());
  std::vector<std::string> ids;
  for (const Engine& engine : *engines) ids.push_back(engine.id);
  return ids;
}

TEST_CASE("the CPU refuses a step that would overwrite a sum") {
  const TensorSpec x = {{2, 3, 4, 4}};
  const LayerSpec spec = Relu{}.Specify({.inputs = {x}}).value();
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  for (const StepSpec& step : spec.steps) {
    StepSignature signature = SignatureOf(step, {.layer = Relu{}, .spec = spec, .inputs = {x}});
    CHECK(backend->Engines(signature).ok());
    signature.operands.back().access = Access::kAccumulate;
    CHECK(absl::IsUnimplemented(backend->Engines(signature).status()));
  }
}

TEST_CASE("convolution lists unique engines, the same ones each time, and refuses others") {
  const Layer layer = Convolution{.out_channels = 8, .kernel = 3, .padding = 1};
  const std::vector<TensorSpec> inputs = {{.shape = {2, 8, 8, 8}}};
  const LayerSpec spec = layer.Specify({.inputs = inputs}).value();
  const std::unique_ptr<Backend> backend = MakeCpuBackend();
  for (const StepSpec& step : spec.steps) {
    const StepSignature signature =
        SignatureOf(step, {.layer = layer, .spec = spec, .inputs = inputs});
    std::vector<std::string> ids = EngineIds(*backend, signature);
    const std::vector<std::string> again = EngineIds(*backend, signature);
    CHECK(ids == again);
    CHECK(ids.size() >= 2);
    std::sort(ids.begin(), ids.end());
    CHECK(std::adjacent_find(ids.begin(), ids.end()) == ids.end());
    CHECK(absl::IsNotFound(backend->MakeKernel(signature, "no such engine").status()));
    for (const std::string& id : ids) CHECK(backend->MakeKernel(signature, id).ok());
    CHECK(EngineIds(*MakeCpuBackend(), signature) == again);  // whatever oneDNN has cached
  }
}

// The number of Winograd's engines; asserts that they come last.
int64_t CountWinograd(const StepSignature& signature) {
  const std::vector<Engine> engines = MakeCpuBackend()->Engines(signature).value();
  const auto is_winograd = [](const Engine& engine) { return engine.notes == "winograd"; };
  CHECK(std::is_partitioned(engines.begin(), engines.end(), std::not_fn(is_winograd)));
  return std::count_if(engines.begin(), engines.end(), is_winograd);
}

TEST_CASE("Winograd is listed last for 3x3 kernels with stride 1, where the CPU has AVX-512") {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto avx512 = static_cast<unsigned>(dnnl::cpu_isa::avx512_core);
  const int64_t expected = (isa & avx512) == avx512 ? 1 : 0;
  for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    const TensorSpec x = {{2, 16, 8, 8}, DType::kFp32, layout};
    const auto count = [&x](const Convolution& layer, Phase phase) {
      return CountWinograd(neap::SignatureOf(layer, phase, {x}).value());
    };
    for (Phase phase : {Phase::kForward, Phase::kBackwardData, Phase::kBackwardParams}) {
      CAPTURE(std::string(Name(phase)));
      CHECK(count({.out_channels = 8, .kernel = 3, .padding = 1}, phase) == expected);
      CHECK(count({.out_channels = 8, .kernel = 3, .stride = 2}, phase) == 0);
      CHECK(count({.out_channels = 8, .kernel = 5}, phase) == 0);
    }
    StepSignature inference =
        neap::SignatureOf(Convolution{.out_channels = 8, .kernel = 3}, Phase::kForward, {x})
            .value();
    inference.mode = Mode::kInference;
    CHECK(CountWinograd(inference) == expected);
  }
}

}  // namespace
}  // namespace neap::testing
