// Norms that do not couple images, and PReLU, on a GPU: addresses and sizes that few tensors have.
#include <doctest/doctest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/prelu.h"
#include "tests/gpu_test.h"
#include "tests/layers/conformance.h"
#include "tests/layers/cuda/device_arena.h"

namespace neap::testing {
namespace {

using namespace operands;

// Memory in which tensors smaller than `bytes` begin 4 bytes behind a multiple of 256, as those of
// a part of a batch may.
DeviceAccess Shifted(DeviceAccess access, int64_t bytes) {
  access.allocate = [aligned = access.allocate, bytes](int64_t wanted) -> void* {
    if (wanted >= bytes) return aligned(wanted);
    return static_cast<char*>(aligned(wanted + 4)) + 4;
  };
  return access;
}

// Calls check(shifted, aligned) with the results of each step of the layer, with and without
// tensors smaller than `bytes` shifted.
template <typename Check>
void CompareShifted(CudaDevice& gpu, const Layer& layer, const TensorSpec& x, int64_t bytes,
                    const Check& check) {
  DeviceArena arena(gpu);
  const LayerSpec spec = layer.Specify({.inputs = {x}}).value();
  Values given = RandomValues({.name = "", .layer = layer, .inputs = {x}}, spec, 7);
  const DeviceAccess shifted = Shifted(arena.Access(), bytes);
  for (const StepSpec& step : spec.steps) {
    const StepSignature signature =
        SignatureOf(step, {.layer = layer, .spec = spec, .inputs = {x}});
    const Values aligned = RunStep(gpu.backend(), arena.Access(), signature, given).value();
    check(RunStep(gpu.backend(), shifted, signature, given).value(), aligned);
    for (const auto& [operand, values] : aligned) given[operand] = values;
  }
}

TEST_CASE("a layer norm has the same bits wherever its statistics begin, if it reads them singly") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    CAPTURE(std::string(Name(dtype)));
    const TensorSpec x = {{2, 512, 5, 3}, dtype, Layout::kChannelsLast};
    CompareShifted(*gpu, LayerNorm{.affine = false}, x, x.size_bytes(),
                   [](const Values& shifted, const Values& aligned) { CHECK(shifted == aligned); });
  }
}

TEST_CASE("a layer norm agrees with itself wherever its tensors begin, in one pass and in two") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  const TensorSpec x = {{2, 96, 5, 3}, DType::kFp32, Layout::kChannelsLast};
  CompareShifted(*gpu, LayerNorm{}, x, x.size_bytes() + 1,
                 [](const Values& shifted, const Values& aligned) {
                   for (const auto& [operand, values] : aligned) {
                     const std::string difference = Difference(shifted.at(operand), values, 1e-5);
                     CHECK_MESSAGE(difference.empty(), difference);
                   }
                 });
}

TEST_CASE("a PReLU with one slope has kernels whatever its tensor's number of elements") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  const TensorSpec x = {{33, 64, 1024, 1024}, DType::kFp16};  // 2^31 and more
  const auto lists = [&](const Layer& layer, Phase phase) {
    return gpu->backend().Engines(neap::SignatureOf(layer, phase, {x}).value()).ok();
  };
  for (const Phase phase : {Phase::kForward, Phase::kBackwardData}) {
    CHECK(lists(Prelu{}, phase));
    CHECK(lists(Prelu{.slopes = 64}, phase));  // fewer elements of a channel
  }
}

}  // namespace
}  // namespace neap::testing
