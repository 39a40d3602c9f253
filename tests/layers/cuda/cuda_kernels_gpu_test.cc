// The CUDA kernels against the float64 reference over all cases, in every type, and convolutions in
// micro-batches against undivided ones.
#include <doctest/doctest.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "neap/core/step/kernel.h"
#include "neap/layers/convolution.h"
#include "tests/gpu_test.h"
#include "tests/layers/conformance.h"
#include "tests/layers/cuda/device_arena.h"
#include "tests/layers/cuda/kernel_tolerances.h"
#include "tests/layers/divided_cases.h"

namespace neap::testing {
namespace {

// Of results in fp32. cuDNN computes gradients of 16-bit weights in 16 bits.
double ToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kTf32:
      return kTf32Tolerance;
    case DType::kFp16:
      return 0x1p-10;
    case DType::kBf16:
      return 0x1p-7;
    default:
      return kFp32Tolerance;
  }
}

// Every `count`-th case. Quarters are test cases of their own, which scripts/gpu_test.sh runs side
// by side.
struct Part {
  size_t index = 0, count = 1;
};
template <size_t kIndex>
struct Quarter {
  static constexpr Part kPart = {kIndex, 4};
};

// Whether the case is wanted: all are, unless the environment variable NEAP_CASES has a part of the
// names of those that are, such as "average_pool".
bool IsWanted(const LayerCase& layer_case) {
  const char* const part = std::getenv("NEAP_CASES");
  return part == nullptr || layer_case.name.find(part) != std::string::npos;
}

void CheckCases(DType dtype, uint32_t seed, size_t most_engines, Part part = {}) {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  MESSAGE("seed ", seed);
  DeviceArena arena(*gpu);
  const DeviceAccess access = arena.Access();
  const double tolerance = ToleranceOf(dtype);
  const std::vector<LayerCase> cases = AllLayerCases(seed);
  for (size_t i = part.index; i < cases.size(); i += part.count) {
    if (!IsWanted(cases[i])) continue;
    const ConformanceOptions options = {
        .tolerance = tolerance, .most_engines = most_engines, .seed = seed};
    for (const std::string& failure :
         ConformanceFailures(gpu->backend(), access, WithDType(cases[i], dtype), options)) {
      FAIL_CHECK(failure);
    }
  }
}

TEST_CASE_TEMPLATE(
    "fp32 CUDA kernels agree with the reference for every engine, in place and as reruns", T,
    Quarter<0>, Quarter<1>, Quarter<2>, Quarter<3>) {
  CheckCases(DType::kFp32, 1, 128, T::kPart);
}

TEST_CASE_TEMPLATE(
    "tf32 CUDA kernels agree with the reference for every engine, in place and as reruns", T,
    Quarter<0>, Quarter<1>, Quarter<2>, Quarter<3>) {
  CheckCases(DType::kTf32, 1, 128, T::kPart);
}

TEST_CASE_TEMPLATE(
    "bf16 CUDA kernels agree with the reference for several engines, in place and as reruns", T,
    Quarter<0>, Quarter<1>, Quarter<2>, Quarter<3>) {
  CheckCases(DType::kBf16, 1, 8, T::kPart);
}

TEST_CASE_TEMPLATE(
    "fp16 CUDA kernels agree with the reference for several engines, in place and as reruns", T,
    Quarter<0>, Quarter<1>, Quarter<2>, Quarter<3>) {
  CheckCases(DType::kFp16, 1, 8, T::kPart);
}

// A device that does not list these engines runs them too, as for a plan from a file. They round
// each partial sum: with factors of at most 1 and sums of 600 products, by some hundredths.
TEST_CASE("engines that add in fp16 run by their id alone, and give nearly the same results") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  const std::unique_ptr<CudaDevice> listing =
      OpenGpuOrSkip({.engines = {.half_accumulation = true}});
  DeviceArena arena(*gpu);
  const Layer layer = Convolution{.out_channels = 16, .kernel = 3, .padding = 1};
  for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    const LayerCase layer_case = {
        .name = "convolution", .layer = layer, .inputs = {{{4, 16, 12, 12}, DType::kFp16, layout}}};
    const LayerSpec spec = layer.Specify({.inputs = layer_case.inputs}).value();
    Values values = RandomValues(layer_case, spec, 3);
    for (const StepSpec& step : spec.steps) {
      const StepSignature signature =
          SignatureOf(step, {.layer = layer, .spec = spec, .inputs = layer_case.inputs});
      const Values want = RunStep(gpu->backend(), arena.Access(), signature, values).value();
      const std::vector<Engine> engines = listing->backend().Engines(signature).value();
      int64_t run = 0;
      for (const Engine& engine : engines) {
        if (!engine.accumulates_in_half) continue;
        CAPTURE(engine.id);
        const absl::StatusOr<Values> got =
            RunStep(gpu->backend(), arena.Access(), signature, values, {.engine = engine.id});
        if (!got.ok()) {  // an engine may be listed and not build
          MESSAGE(std::string(got.status().message()));
          continue;
        }
        for (const auto& wanted : want) {
          const std::string difference = Difference(got->at(wanted.first), wanted.second, 0.05);
          CHECK_MESSAGE(difference.empty(), ToString(wanted.first), ": ", difference);
        }
        ++run;
      }
      CHECK(run > 0);
      for (const auto& [operand, vector] : want) values[operand] = vector;
    }
  }
}

TEST_CASE("CUDA kernels agree with the reference on shapes of a new seed, in every type") {
  const uint32_t seed = std::random_device{}();
  for (DType dtype : {DType::kFp32, DType::kBf16, DType::kFp16}) CheckCases(dtype, seed, 3);
}

// Excludes FFTs, which transform two images at once, and engines that choose their tiles, or the
// parts of a sum, by the size of the whole problem. These are known by their numbers for fp32 and
// tf32. Nothing is known of engines with a ReLU, which have other numbers, of 16-bit ones, or of
// those of volumes.
bool TreatsImagesAlike(const Engine& engine) {
  if (engine.computes_relu) return false;
  for (std::string_view by_size : {"eng58_", "eng63_", "cublaslt-1x1"}) {
    if (engine.id.find(by_size) != std::string::npos) return false;
  }
  return engine.notes.find("fft") == std::string::npos;
}

void CheckMicroBatches(int axes) {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  const DeviceAccess access = arena.Access();
  for (DType dtype : {DType::kFp32, DType::kTf32, DType::kBf16, DType::kFp16}) {
    CAPTURE(Name(dtype));
    DividedOptions options = {.cases = 60,
                              .seed = 3,
                              .dtype = dtype,
                              .axes = axes,
                              .most_engines = 128,
                              .tolerance = dtype == DType::kTf32 ? kTf32Tolerance : 1e-5,
                              .treats_images_alike = TreatsImagesAlike};
    if (Is16Bit(dtype)) options.tolerance = 4 * ToleranceOf(dtype);  // each part's is rounded
    if (Is16Bit(dtype) || axes == 3) {
      options.cases = 20;
      options.treats_images_alike = [](const Engine&) { return false; };
    }
    const DividedResult result = RunDividedConvolutions(gpu->backend(), access, options);
    for (const std::string& failure : result.failures) FAIL_CHECK(failure);
    CHECK(result.writing > 0);
    CHECK(result.adding > 0);
  }
}

TEST_CASE("convolutions in micro-batches on a GPU have the undivided bits, and their gradients") {
  CheckMicroBatches(/*axes=*/2);
}

TEST_CASE("convolutions of volumes in micro-batches on a GPU have close results and gradients") {
  CheckMicroBatches(/*axes=*/3);
}

}  // namespace
}  // namespace neap::testing
