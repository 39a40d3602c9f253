// The CUDA kernels against the CPU's at sizes of real networks, which use blocks, splits and
// vectors, and for which the float64 reference is too slow.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/cpu/cpu_backend.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/fusion/norm_pass.h"
#include "neap/layers/multiply.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/pooling.h"
#include "neap/layers/prelu.h"
#include "neap/layers/resize/pixel_shuffle.h"
#include "neap/layers/resize/resize.h"
#include "neap/layers/shape/tile.h"
#include "neap/layers/tokens/position_embedding.h"
#include "neap/layers/tokens/prepend_token.h"
#include "tests/gpu_test.h"
#include "tests/layers/conformance.h"
#include "tests/layers/cuda/device_arena.h"
#include "tests/layers/cuda/kernel_tolerances.h"

namespace neap::testing {
namespace {

// For convolutions at sizes of real networks, whose sums are longer.
constexpr double kRealSizeTolerance = 5e-5;

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
       {GroupNorm{.groups = 32}, {{16, 64, 56, 56}}},
       {GroupNorm{.groups = 32}, {{32, 2048, 7, 7}}},
       {InstanceNorm{.affine = true}, {{1, 8, 64, 64, 64}}},
       {LayerNorm{}, {{16, 96, 56, 56}}},
       {LayerNorm{}, {{8, 768, 197}}},
       {Relu{}, {{16, 64, 56, 56}}},
       {Silu{}, {{16, 64, 56, 56}}},
       {Gelu{}, {{16, 64, 56, 56}}},
       {Prelu{}, {{16, 64, 56, 56}}},
       {Prelu{.slopes = 64}, {{16, 64, 56, 56}}},
       {PositionEmbedding{}, {{8, 768, 197}}},
       {PrependToken{}, {{8, 768, 196}}},
       {Multiply{}, {{16, 96, 56, 56}, {16, 96, 1, 1}}},
       {MaxPool{.kernel = 3, .stride = 2, .padding = 1}, {{8, 64, 112, 112}}},
       {MaxPool{}, {{1, 32, 24, 48, 48}}},
       {AveragePool{.kernel = 3, .stride = 2, .padding = 1}, {{1, 16, 24, 48, 48}}},
       {GlobalAveragePool{}, {{32, 2048, 7, 7}}},
       {AdaptiveAveragePool{.size = 7}, {{8, 512, 15, 17}}},
       {Resize{.scales = {2}, .mode = Resize::Mode::kLinear}, {{4, 64, 56, 56}}},
       {Resize{.scales = {2}, .mode = Resize::Mode::kLinear}, {{2, 32, 12, 24, 24}}},
       {Resize{.scales = {4}, .mode = Resize::Mode::kCubic}, {{2, 16, 28, 28}}},
       {PixelShuffle{}, {{4, 64, 56, 56}}},
       {Tile{.repeats = {2, 3}}, {{4, 64, 28, 28}}},
       {Tile{.repeats = 28}, {{4, 64, 1, 1}}}},
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
       {Convolution{.out_channels = 64, .kernel = 3, .padding = 1}, {{4, 3, 56, 56}}},
       {Convolution{.out_channels = 32, .kernel = 3, .padding = 1}, {{2, 16, 16, 32, 32}}},
       {Convolution{.out_channels = 32, .kernel = 2, .stride = 2, .bias = false},
        {{2, 16, 16, 32, 32}}}},
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

}  // namespace
}  // namespace neap::testing
