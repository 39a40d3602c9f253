// The CUDA kernels against the float64 reference over all cases, in fp32 and tf32, and against
// themselves at sizes that the reference is too slow for.
#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "neap/core/units.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cpu/cpu_backend.h"
#include "neap/layers/cuda/cuda_backend.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "tests/gpu_test.h"
#include "tests/layers/conformance.h"

namespace neap::testing {
namespace {

using namespace operands;

// |got - want| <= tolerance * max(1, largest |want|). tf32 keeps 10 bits of a factor: 2^-11 of each
// product at most.
constexpr double kFp32Tolerance = 2e-5;
constexpr double kTf32Tolerance = 2e-3;

// Memory for the harness from one allocation, which is reused once all of it has been released.
class Arena {
 public:
  explicit Arena(CudaDevice& device, int64_t size_bytes = kGiB) : device_(device) {
    absl::StatusOr<Buffer> buffer = device.Allocate(MemoryKind::kDevice, size_bytes);
    REQUIRE(buffer.ok());
    buffer_ = *std::move(buffer);
  }
  DeviceAccess Access() {
    return {
        .allocate = [this](int64_t bytes) { return Take(bytes); },
        .release =
            [this](void*) {
              if (--live_ == 0) used_ = 0;
            },
        .copy_in = [this](void* to, const void* from, int64_t bytes) { Copy(to, from, bytes); },
        .copy_out = [this](void* to, const void* from, int64_t bytes) { Copy(to, from, bytes); }};
  }

 private:
  void* Take(int64_t bytes) {
    void* const at = buffer_.data() + used_;
    used_ += RoundUp(bytes, 256);
    REQUIRE(used_ <= buffer_.size_bytes());
    ++live_;
    return at;
  }
  void Copy(void* to, const void* from, int64_t bytes) {
    const absl::Status copied = device_.Copy(Stream::kCompute, to, from, bytes);
    REQUIRE_MESSAGE(copied.ok(), std::string(copied.message()));
    const absl::Status done = device_.Synchronize();
    REQUIRE_MESSAGE(done.ok(), std::string(done.message()));
  }

  CudaDevice& device_;
  Buffer buffer_;
  int64_t used_ = 0;
  int live_ = 0;
};

LayerCase As(LayerCase layer_case, DType dtype) {
  for (TensorSpec& input : layer_case.inputs) {
    if (input.dtype == DType::kFp32) input.dtype = dtype;
  }
  layer_case.name += " " + std::string(Name(dtype));
  return layer_case;
}

void CheckAllCases(DType dtype, uint32_t seed, size_t most_engines) {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  MESSAGE("seed ", seed);
  Arena arena(*gpu);
  const DeviceAccess access = arena.Access();
  const double tolerance = dtype == DType::kTf32 ? kTf32Tolerance : kFp32Tolerance;
  for (const LayerCase& layer_case : AllLayerCases(seed)) {
    const ConformanceOptions options = {
        .tolerance = tolerance, .most_engines = most_engines, .seed = seed};
    for (const std::string& failure :
         ConformanceFailures(gpu->backend(), access, As(layer_case, dtype), options)) {
      FAIL_CHECK(failure);
    }
  }
}

TEST_CASE("fp32 CUDA kernels agree with the reference in every engine, in place and rerun") {
  CheckAllCases(DType::kFp32, 1, 64);
}

TEST_CASE("tf32 CUDA kernels agree with the reference in every engine, in place and rerun") {
  CheckAllCases(DType::kTf32, 1, 64);
}

TEST_CASE("CUDA kernels agree with the reference on shapes of a new seed") {
  CheckAllCases(DType::kFp32, std::random_device{}(), 3);
}

struct StepCase {
  Layer layer;
  std::vector<Shape> shapes;
};

std::string FirstDeterministic(Backend& backend, const StepSignature& signature) {
  const absl::StatusOr<std::vector<Engine>> engines = backend.Engines(signature);
  REQUIRE(engines.ok());
  for (const Engine& engine : *engines) {
    if (engine.deterministic) return engine.id;
  }
  FAIL("no deterministic engine");
  return "";
}

// Every step on both devices with the same values, sizes at which blocks, splits and vectors are
// all in use.
void CompareWithCpu(CudaDevice& gpu, const StepCase& c, Layout layout, double tolerance) {
  LayerCase layer_case = {.name = std::string(c.layer.type()), .layer = c.layer};
  for (const Shape& shape : c.shapes) layer_case.inputs.push_back({shape, DType::kFp32, layout});
  CAPTURE(layer_case.name);
  CAPTURE(layer_case.inputs[0].ToString());
  const absl::StatusOr<LayerSpec> spec = c.layer.Specify({.inputs = layer_case.inputs});
  REQUIRE(spec.ok());
  const std::unique_ptr<Backend> cpu = MakeCpuBackend();
  Arena arena(gpu);
  Values values = RandomValues(layer_case, *spec, 5);
  for (const StepSpec& step : spec->steps) {
    const StepSignature signature =
        SignatureOf(step, {.layer = c.layer, .spec = *spec, .inputs = layer_case.inputs});
    const absl::StatusOr<Values> want = RunStep(*cpu, HostAccess(), signature, values);
    const RunOptions with = {.engine = FirstDeterministic(gpu.backend(), signature)};
    const absl::StatusOr<Values> got =
        RunStep(gpu.backend(), arena.Access(), signature, values, with);
    const absl::StatusOr<Values> again =
        RunStep(gpu.backend(), arena.Access(), signature, values, with);
    REQUIRE(want.ok());
    REQUIRE_MESSAGE(got.ok(), std::string(got.status().message()));
    REQUIRE(again.ok());
    CHECK(*got == *again);
    for (const auto& [operand, vector] : *want) {
      const std::string difference = Difference(got->at(operand), vector, tolerance);
      CHECK_MESSAGE(difference.empty(), std::string(Name(step.phase)), " ", ToString(operand), ": ",
                    difference);
      values[operand] = vector;
    }
  }
}

TEST_CASE("CUDA kernels agree with the CPU's at sizes of real networks") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  const std::vector<StepCase> cases = {
      {BatchNorm{}, {{16, 64, 56, 56}}},
      {BatchNorm{}, {{32, 512, 7, 7}}},
      {Relu{}, {{16, 64, 56, 56}}},
      {MaxPool{.kernel = 3, .stride = 2, .padding = 1}, {{8, 64, 112, 112}}},
      {GlobalAveragePool{}, {{32, 2048, 7, 7}}},
      {FullyConnected{.out_features = 1000}, {{64, 2048, 1, 1}}},
      {Convolution{.out_channels = 64, .kernel = 3, .padding = 1}, {{4, 64, 28, 28}}},
      {Convolution{.out_channels = 64, .kernel = 7, .stride = 2, .padding = 3, .bias = false},
       {{4, 3, 112, 112}}}};
  for (const StepCase& c : cases) {
    for (Layout layout : {Layout::kNchw, Layout::kNhwc}) CompareWithCpu(*gpu, c, layout, 5e-5);
  }
}

TEST_CASE("batch-norm keeps the variance of numbers far from zero") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  Arena arena(*gpu);
  for (Layout layout : {Layout::kNchw, Layout::kNhwc}) {
    const TensorSpec x = {{8, 4, 16, 16}, DType::kFp32, layout};
    const LayerCase layer_case = {.name = "batch_norm", .layer = BatchNorm{}, .inputs = {x}};
    const LayerSpec spec = BatchNorm{}.Specify({.inputs = {x}}).value();
    Values values = RandomValues(layer_case, spec, 3);
    for (double& value : values[X()]) value = static_cast<float>(1000 + 0.01 * value);
    const StepSignature signature = SignatureOf(
        spec.steps[0], {.layer = BatchNorm{.epsilon = 1e-12F}, .spec = spec, .inputs = {x}});
    const Values want = RunStep(*MakeCpuBackend(), HostAccess(), signature, values).value();
    const Values got = RunStep(gpu->backend(), arena.Access(), signature, values).value();
    const std::string difference = Difference(got.at(Saved(1)), want.at(Saved(1)), 1e-3);
    CHECK_MESSAGE(difference.empty(), difference);
  }
}

// cuDNN's own answers differ in details (workspace of engines that choose their split by occupancy,
// an engine or two), so a plan for a described GPU is made again where it runs.
TEST_CASE("an H200 recommends the convolution engines that its description does") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu || gpu->description().name != "NVIDIA H200") return;
  const std::unique_ptr<EngineCatalog> described =
      MakeCudnnCatalog(CudnnDeviceProperties("h200").value()).value();
  const Layer layer = Convolution{.out_channels = 64, .kernel = 3, .padding = 1};
  for (DType dtype : {DType::kFp32, DType::kTf32}) {
    const TensorSpec x = {{32, 64, 56, 56}, dtype, Layout::kNhwc};
    const LayerSpec spec = layer.Specify({.inputs = {x}}).value();
    for (const StepSpec& step : spec.steps) {
      const StepSignature signature =
          SignatureOf(step, {.layer = layer, .spec = spec, .inputs = {x}});
      const std::vector<Engine> there = gpu->backend().Engines(signature).value();
      const std::vector<Engine> absent = described->Engines(signature).value();
      CHECK(there.front().id == absent.front().id);
      size_t common = 0;
      for (const Engine& engine : there) {
        for (const Engine& other : absent) common += engine.id == other.id ? 1 : 0;
      }
      MESSAGE(std::string(Name(dtype)), " ", std::string(Name(step.phase)), ": ", there.size(),
              " engines there, ", absent.size(), " described, ", common, " of them the same");
      CHECK(common * 4 >= there.size() * 3);
    }
  }
}

TEST_CASE("a label outside the classes makes the loss NaN on the GPU too") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  Arena arena(*gpu);
  const std::vector<TensorSpec> inputs = {{.shape = {2, 3, 1, 1}},
                                          {.shape = {2}, .dtype = DType::kInt32}};
  const LayerSpec spec = SoftmaxCrossEntropy{}.Specify({.inputs = inputs}).value();
  const StepSignature signature =
      SignatureOf(spec.steps[0], {.layer = SoftmaxCrossEntropy{}, .spec = spec, .inputs = inputs});
  for (double label : {-1.0, 3.0}) {
    const absl::StatusOr<Values> y = RunStep(gpu->backend(), arena.Access(), signature,
                                             {{X(0), {1, 2, 3, 1, 2, 3}}, {X(1), {2, label}}});
    REQUIRE(y.ok());
    CHECK(std::isnan(y->at(State(0))[0]));
    CHECK(y->at(State(0))[1] == 1);
  }
}

TEST_CASE("the CUDA backend says which dtype it has no kernel for, and refuses unknown engines") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  std::vector<TensorSpec> inputs = {{.shape = {1, 4, 8, 8}, .dtype = DType::kBf16}};
  const auto signature = [&] {
    const LayerSpec spec = Relu{}.Specify({.inputs = inputs}).value();
    return SignatureOf(spec.steps[0], {.layer = Relu{}, .spec = spec, .inputs = inputs});
  };
  CHECK(absl::IsUnimplemented(gpu->backend().Engines(signature()).status()));
  inputs[0].dtype = DType::kFp32;
  CHECK(gpu->backend().Engines(signature()).ok());
  CHECK(absl::IsNotFound(gpu->backend().MakeKernel(signature(), "no such engine").status()));
}

}  // namespace
}  // namespace neap::testing
