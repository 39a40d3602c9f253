// The CUDA kernels against the float64 reference over all cases, in fp32 and tf32, and against
// themselves at sizes that the reference is too slow for.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "neap/core/base/units.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cpu/cpu_backend.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/fusion/norm_pass.h"
#include "neap/layers/multiply.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "tests/gpu_test.h"
#include "tests/layers/activation_checks.h"
#include "tests/layers/conformance.h"
#include "tests/layers/cuda/device_arena.h"
#include "tests/layers/divided_cases.h"
#include "tests/layers/fusion_checks.h"
#include "tests/layers/loss_checks.h"
#include "tests/layers/sub_batch_checks.h"
#include "tests/layers/update_checks.h"

namespace neap::testing {
namespace {

using namespace operands;

// |got - want| <= tolerance * max(1, largest |want|). tf32 keeps 10 bits of a factor, so the error
// of each product is at most 2^-11.
constexpr double kFp32Tolerance = 2e-5;
constexpr double kTf32Tolerance = 2e-3;
// For convolutions at sizes of real networks, whose sums are longer.
constexpr double kRealSizeTolerance = 5e-5;

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
        if (!AccumulatesInHalf(engine.id)) continue;
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
// tf32. Nothing is known of engines with a ReLU, which have other numbers, or of 16-bit ones.
bool TreatsImagesAlike(const Engine& engine) {
  if (ComputesRelu(engine.id)) return false;
  for (std::string_view by_size : {"eng58_", "eng63_", "cublaslt-1x1"}) {
    if (engine.id.find(by_size) != std::string::npos) return false;
  }
  return engine.notes.find("fft") == std::string::npos;
}

TEST_CASE("convolutions in micro-batches on a GPU have the undivided bits, and their gradients") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  const DeviceAccess access = arena.Access();
  for (DType dtype : {DType::kFp32, DType::kTf32, DType::kBf16, DType::kFp16}) {
    CAPTURE(Name(dtype));
    DividedOptions options = {.cases = 60,
                              .seed = 3,
                              .dtype = dtype,
                              .most_engines = 128,
                              .tolerance = dtype == DType::kTf32 ? kTf32Tolerance : 1e-5,
                              .treats_images_alike = TreatsImagesAlike};
    if (Is16Bit(dtype)) {
      options.cases = 20;
      options.tolerance = 4 * ToleranceOf(dtype);  // the gradient of each part is rounded
      options.treats_images_alike = [](const Engine&) { return false; };
    }
    const DividedResult result = RunDividedConvolutions(gpu->backend(), access, options);
    for (const std::string& failure : result.failures) FAIL_CHECK(failure);
    CHECK(result.writing > 0);
    CHECK(result.adding > 0);
  }
}

struct StepCase {
  Layer layer;
  std::vector<Shape> shapes;
};

// The first deterministic engine, and those that use neap's own kernels, which may come later: for
// 1x1 convolutions, and the first one by space to depth.
std::vector<std::string> EnginesToCompare(Backend& backend, const StepSignature& signature) {
  const absl::StatusOr<std::vector<Engine>> engines = backend.Engines(signature);
  REQUIRE(engines.ok());
  std::vector<std::string> ids;
  bool has_deep = false;
  for (const Engine& engine : *engines) {
    const bool deep = engine.deterministic && engine.id.rfind("s2d", 0) == 0;
    const bool own = engine.id == "cublaslt-1x1" || (deep && !has_deep);
    has_deep = has_deep || deep;
    if (own || (ids.empty() && engine.deterministic)) ids.push_back(engine.id);
  }
  REQUIRE(!ids.empty());
  return ids;
}

double ToleranceOf(const Layer& layer, DType dtype) {
  const bool convolves = layer.type() == Convolution::kType;
  const bool multiplies = convolves || layer.type() == FullyConnected::kType;
  if (multiplies && dtype == DType::kTf32) return kTf32Tolerance;
  return convolves ? kRealSizeTolerance : kFp32Tolerance;
}

// Runs every step on both devices with the same values, at sizes that use blocks, splits and
// vectors.
void CompareWithCpu(CudaDevice& gpu, const StepCase& c, DType dtype, Layout layout) {
  const double tolerance = ToleranceOf(c.layer, dtype);
  LayerCase layer_case = {.name = std::string(c.layer.type()), .layer = c.layer};
  for (const Shape& shape : c.shapes) layer_case.inputs.push_back({shape, dtype, layout});
  CAPTURE(layer_case.name);
  CAPTURE(layer_case.inputs[0].ToString());
  const absl::StatusOr<LayerSpec> spec = c.layer.Specify({.inputs = layer_case.inputs});
  REQUIRE(spec.ok());
  const std::unique_ptr<Backend> cpu = MakeCpuBackend();
  DeviceArena arena(gpu);
  Values values = RandomValues(layer_case, *spec, 5);
  for (const StepSpec& step : spec->steps) {
    const StepSignature signature =
        SignatureOf(step, {.layer = c.layer, .spec = *spec, .inputs = layer_case.inputs});
    const absl::StatusOr<Values> want = RunStep(*cpu, HostAccess(), signature, values);
    REQUIRE(want.ok());
    for (const std::string& engine : EnginesToCompare(gpu.backend(), signature)) {
      CAPTURE(engine);
      const auto run = [&] {
        return RunStep(gpu.backend(), arena.Access(), signature, values, {.engine = engine});
      };
      const absl::StatusOr<Values> got = run(), again = run();
      REQUIRE_MESSAGE(got.ok(), std::string(got.status().message()));
      REQUIRE(again.ok());
      CHECK(*got == *again);
      for (const auto& [name, vector] : *want) {
        const Operand operand = name;
        const std::string difference = Difference(got->at(operand), vector, tolerance);
        CHECK_MESSAGE(difference.empty(), std::string(Name(step.phase)), " ", ToString(operand),
                      ": ", difference);
      }
    }
    for (const auto& [operand, vector] : *want) values[operand] = vector;
  }
}

void CompareWithCpu(const std::vector<StepCase>& cases, const std::vector<DType>& dtypes) {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  for (const StepCase& c : cases) {
    for (const DType dtype : dtypes) {
      for (const Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast})
        CompareWithCpu(*gpu, c, dtype, layout);
    }
  }
}

TEST_CASE("CUDA kernels agree with the CPU's at sizes of real networks") {
  CompareWithCpu(
      {{BatchNorm{}, {{16, 64, 56, 56}}},
       {BatchNorm{}, {{32, 512, 7, 7}}},
       {NormPass{.concatenates = true}, {{16, 64, 28, 28}, {16, 32, 28, 28}, {16, 32, 28, 28}}},
       {NormPass{.addend = NormPass::Raw{}, .sink = GlobalAveragePool{}},
        {{32, 512, 7, 7}, {32, 512, 7, 7}}},
       {Relu{}, {{16, 64, 56, 56}}},
       {Silu{}, {{16, 64, 56, 56}}},
       {Multiply{}, {{16, 96, 56, 56}, {16, 96, 1, 1}}},
       {MaxPool{.kernel = 3, .stride = 2, .padding = 1}, {{8, 64, 112, 112}}},
       {GlobalAveragePool{}, {{32, 2048, 7, 7}}}},
      {DType::kFp32});
}

TEST_CASE("convolutions and products agree with the CPU's at sizes of real networks") {
  CompareWithCpu(
      {{FullyConnected{.out_features = 1000}, {{64, 2048, 1, 1}}},
       {Convolution{.out_channels = 64, .kernel = 3, .padding = 1}, {{4, 64, 28, 28}}},
       {Convolution{.out_channels = 64, .kernel = 7, .stride = 2, .padding = 3, .bias = false},
        {{4, 3, 112, 112}}},
       {Convolution{.out_channels = 64, .kernel = 11, .stride = 4, .padding = 2},
        {{4, 3, 224, 224}}},
       {Convolution{.out_channels = 64, .kernel = 3, .padding = 1}, {{4, 3, 56, 56}}}},
      {DType::kFp32, DType::kTf32});
}

// There are enough images that the weight's gradient is a sum of several products. With 33 images
// and odd numbers of channels and pixels, the later products begin at unaligned addresses.
TEST_CASE("1x1 convolutions of many images agree with the CPU's") {
  CompareWithCpu(
      {{Convolution{.out_channels = 2048, .kernel = 1, .bias = false}, {{128, 512, 7, 7}}},
       {Convolution{.out_channels = 513, .kernel = 1, .bias = false}, {{33, 513, 13, 13}}},
       {Convolution{.out_channels = 512, .kernel = 1, .stride = 2, .bias = false},
        {{32, 256, 28, 28}}}},
      {DType::kFp32, DType::kTf32});
}

TEST_CASE("activations have PyTorch's values and gradients at their corners on a GPU") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    CheckActivationCorners(gpu->backend(), arena.Access(), dtype);
}

TEST_CASE("a batch norm of parts has the bits of a concatenation and a batch norm on a GPU") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    CheckBatchNormOfParts(gpu->backend(), arena.Access(), dtype);
}

TEST_CASE("a concatenation of batch norms has the bits of separate layers on a GPU") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    CheckConcatBatchNorms(gpu->backend(), arena.Access(), dtype);
}

TEST_CASE("a convolution and a kernel for its ReLU have the bits of separate layers on a GPU") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  for (const DType dtype : {DType::kFp32, DType::kTf32, DType::kFp16, DType::kBf16})
    CheckConvolutionWithRelu(gpu->backend(), arena.Access(), dtype);
}

TEST_CASE("an averaged batch norm has the bits of a batch norm and a global pooling on a GPU") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    CheckAveragedBatchNorm(gpu->backend(), arena.Access(), dtype);
}

TEST_CASE("a batch norm with an activation has the bits of both layers on a GPU") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  for (const DType dtype : {DType::kFp32, DType::kFp16, DType::kBf16})
    CheckActivatedNorm(gpu->backend(), arena.Access(), dtype);
}

TEST_CASE("a label outside the classes makes the loss NaN on the GPU too") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  CheckLabelsOutsideClasses(gpu->backend(), arena.Access());
}

TEST_CASE("an image without a label adds nothing to the loss on the GPU either") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  CheckImagesWithoutLabels(gpu->backend(), arena.Access());
  CheckElementsWithoutTargets(gpu->backend(), arena.Access());
}

TEST_CASE("on the GPU too, sub-batches compute together what the whole batch does") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    CheckDropoutInSubBatches(gpu->backend(), arena.Access(), dtype);
    CheckFullyConnectedInSubBatches(gpu->backend(), arena.Access(), dtype);
  }
  CheckLossInSubBatches(gpu->backend(), arena.Access());
}

TEST_CASE("on the GPU too, the optimizer's steps take the tensors of many layers") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  CheckManyUpdates(gpu->backend(), arena.Access());
  CheckManyGradients(gpu->backend(), arena.Access());
  CheckScaledUpdates(gpu->backend(), arena.Access());
  CheckGradientNorm(gpu->backend(), arena.Access());
  CheckManyStates(gpu->backend(), arena.Access());
}

TEST_CASE("beside a NaN no class is the largest on the GPU either") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  const std::vector<TensorSpec> inputs = {{.shape = {3, 3, 1, 1}},
                                          {.shape = {3}, .dtype = DType::kInt32}};
  const LayerSpec spec = SoftmaxCrossEntropy{}.Specify({.inputs = inputs}).value();
  const StepSignature signature =
      SignatureOf(spec.steps[0], {.layer = SoftmaxCrossEntropy{}, .spec = spec, .inputs = inputs});
  const double nan = std::nan("");
  const absl::StatusOr<Values> y =
      RunStep(gpu->backend(), arena.Access(), signature,
              {{X(0), {nan, 2, 3, 1, 2, nan, 1, 2, 3}}, {X(1), {2, 1, 2}}});
  REQUIRE(y.ok());
  CHECK(y->at(State(0))[1] == 1);
}

}  // namespace
}  // namespace neap::testing
