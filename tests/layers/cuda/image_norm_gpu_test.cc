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

TEST_CASE("a layer norm has the same bits wherever its statistics begin, if it reads them singly") {
  const std::unique_ptr<CudaDevice> gpu = OpenGpuOrSkip();
  if (!gpu) return;
  DeviceArena arena(*gpu);
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    CAPTURE(std::string(Name(dtype)));
    const Layer layer = LayerNorm{.affine = false};
    const TensorSpec x = {{2, 512, 5, 3}, dtype, Layout::kChannelsLast};
    const LayerSpec spec = layer.Specify({.inputs = {x}}).value();
    Values given = RandomValues({.name = "", .layer = layer, .inputs = {x}}, spec, 7);
    const DeviceAccess shifted = Shifted(arena.Access(), x.size_bytes());
    for (const StepSpec& step : spec.steps) {
      const StepSignature signature =
          SignatureOf(step, {.layer = layer, .spec = spec, .inputs = {x}});
      const Values aligned = RunStep(gpu->backend(), arena.Access(), signature, given).value();
      CHECK(RunStep(gpu->backend(), shifted, signature, given).value() == aligned);
      for (const auto& [operand, values] : aligned) given[operand] = values;
    }
  }
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
