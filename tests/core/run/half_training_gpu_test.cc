// Training in 16 bits on a GPU keeps the contracts that it keeps on the CPU.
#include <doctest/doctest.h>

#include "tests/core/run/half_training.h"
#include "tests/gpu_test.h"

namespace neap {

TEST_CASE("on a GPU, a step with an overflow changes nothing but the scale, whatever the plan") {
  const std::unique_ptr<CudaDevice> gpu = testing::OpenGpuOrSkip();
  if (gpu) testing::CheckOverflowsAreSkipped(*gpu);
}

TEST_CASE("on a GPU, strict 16-bit training has the same bits under every plan") {
  const std::unique_ptr<CudaDevice> gpu = testing::OpenGpuOrSkip();
  if (gpu) testing::CheckSameBitsUnderEveryPlan(*gpu, /*reference_fusion=*/true);
}

TEST_CASE("on a GPU, 16-bit training with fused convolutions is close to training without") {
  const std::unique_ptr<CudaDevice> gpu = testing::OpenGpuOrSkip();
  if (gpu) testing::CheckFusionIsClose(*gpu);
}

}  // namespace neap
