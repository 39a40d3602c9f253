// Statistics of batch norms on a GPU, for numbers that are hard to sum.
#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "neap/layers/batch_norm.h"
#include "neap/layers/cpu/cpu_backend.h"
#include "neap/layers/fusion/folded_convolution.h"
#include "neap/layers/fusion/sync_batch_norm.h"
#include "tests/gpu_test.h"
#include "tests/layers/conformance.h"
#include "tests/layers/cuda/device_arena.h"
#include "tests/layers/reference.h"

namespace neap::testing {
namespace {

using namespace operands;

// The forward step of a layer, with random values.
struct ForwardStep {
  StepSignature signature;
  Values values;
};
ForwardStep ForwardOf(const Layer& layer, const std::vector<TensorSpec>& inputs, uint32_t seed) {
  const LayerSpec spec = layer.Specify({.inputs = inputs}).value();
  const LayerCase layer_case = {.name = "forward", .layer = layer, .inputs = inputs};
  return {SignatureOf(spec.steps[0], {.layer = layer, .spec = spec, .inputs = inputs}),
          RandomValues(layer_case, spec, seed)};
}

TEST_CASE("batch norm computes the variance of numbers far from zero accurately") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    const TensorSpec x = {{8, 4, 16, 16}, DType::kFp32, layout};
    auto [signature, values] = ForwardOf(BatchNorm{.epsilon = 1e-12F}, {x}, 3);
    for (double& value : values[X()]) value = static_cast<float>(1000 + 0.01 * value);
    const Values want = RunStep(*MakeCpuBackend(), HostAccess(), signature, values).value();
    const Values got = RunStep(gpu->backend(), arena.Access(), signature, values).value();
    const std::string difference = Difference(got.at(Saved(1)), want.at(Saved(1)), 1e-3);
    CHECK_MESSAGE(difference.empty(), difference);
  }
}

TEST_CASE("batch norm computes the variance accurately if the first number is an outlier") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    const TensorSpec x = {{64, 8, 64, 64}, DType::kFp32, layout};
    auto [signature, values] = ForwardOf(BatchNorm{}, {x}, 4);
    const size_t pixels = 64 * 64;
    for (size_t c = 0; c < 8; ++c) values[X()][c * pixels] = c % 2 == 0 ? 1000 : -3e4;
    const Values want = RunStep(*MakeCpuBackend(), HostAccess(), signature, values).value();
    const Values got = RunStep(gpu->backend(), arena.Access(), signature, values).value();
    for (size_t c = 0; c < 8; ++c) {
      CAPTURE(c);
      CHECK(got.at(Saved(0))[c] == doctest::Approx(want.at(Saved(0))[c]).epsilon(1e-5));
      CHECK(got.at(Saved(1))[c] == doctest::Approx(want.at(Saved(1))[c]).epsilon(1e-5));
    }
  }
}

TEST_CASE("a rank's statistics are accurate far from zero, and NaN where a value is") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  constexpr int64_t kChannels = 4;
  const BatchNormStatistics layer = {.rank = 1, .ranks = 2};
  for (Layout layout : {Layout::kChannelsFirst, Layout::kChannelsLast}) {
    auto [signature, values] =
        ForwardOf(layer, {{{8, kChannels, 16, 16}, DType::kFp32, layout}}, 3);
    for (double& value : values[X()]) value = static_cast<float>(1000 + 0.01 * value);
    const Values want = RunStep(*MakeCpuBackend(), HostAccess(), signature, values).value();
    Values got = RunStep(gpu->backend(), arena.Access(), signature, values).value();
    const auto squares = [&](const Values& of) {
      const auto row = RowOf(of.at(Y()).data(), layer.rank, kChannels);
      return std::vector<double>(row.squares, row.squares + kChannels);
    };
    const std::string difference = Difference(squares(got), squares(want), 1e-3, 0);
    CHECK_MESSAGE(difference.empty(), difference);
    values[X()][5] = std::nan("");
    got = RunStep(gpu->backend(), arena.Access(), signature, values).value();
    const auto row = RowOf(got.at(Y()).data(), layer.rank, kChannels);
    CHECK((std::isnan(row.mean[0]) && std::isnan(row.squares[0])));
    CHECK(!(std::isnan(row.mean[1]) || std::isnan(row.squares[1])));
  }
}

TEST_CASE("batch norm of a NaN has NaN statistics") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  const TensorSpec x = {{2, 2, 8, 8}};
  auto [signature, values] = ForwardOf(BatchNorm{}, {x}, 4);
  values[X()][5] = std::nan("");
  const Values got = RunStep(gpu->backend(), arena.Access(), signature, values).value();
  for (int k : {0, 1}) {
    CHECK(std::isnan(got.at(Saved(k))[0]));
    CHECK(!std::isnan(got.at(Saved(k))[1]));
  }
}

struct Results {
  Values got, want;
};
// The forward step of a folded convolution, a sum and a ReLU, after `change` has changed the
// elements of x.
template <typename Change>
Results RunFolded(CudaDevice& gpu, DType dtype, Change change) {
  const std::vector<TensorSpec> inputs = {{{8, 16, 16, 16}, dtype, Layout::kChannelsLast},
                                          {{8, 128, 16, 16}, dtype, Layout::kChannelsLast}};
  const Layer layer = FoldedConvolution{.out_channels = 128, .adds = true, .relu = true};
  auto [signature, values] = ForwardOf(layer, inputs, 5);
  change(values[X()]);
  DeviceArena arena(gpu);
  return {.got = RunStep(gpu.backend(), arena.Access(), signature, values).value(),
          .want = ReferenceStep(signature, values)};
}
constexpr DType kTypes[] = {DType::kFp32, DType::kTf32, DType::kFp16, DType::kBf16};

TEST_CASE("a folded batch norm's variance is accurate if means are seven times deviations") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  for (const DType dtype : kTypes) {
    CAPTURE(std::string(Name(dtype)));
    const Results results = RunFolded(*gpu, dtype, [](std::vector<double>& x) {
      for (double& value : x) value = 8 + std::round(value * 16) / 16;  // exact in bf16
    });
    const std::string difference =
        Difference(results.got.at(Saved(1)), results.want.at(Saved(1)), 1e-3);
    CHECK_MESSAGE(difference.empty(), difference);
  }
}

TEST_CASE("a folded batch norm of a NaN has no finite result") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  for (const DType dtype : kTypes) {
    CAPTURE(std::string(Name(dtype)));
    const Results results =
        RunFolded(*gpu, dtype, [](std::vector<double>& x) { x[5] = std::nan(""); });
    CHECK(std::isnan(results.got.at(Saved(1))[0]));
    CHECK(!std::isfinite(results.got.at(Y())[128]));
  }
}

}  // namespace
}  // namespace neap::testing
