#include <doctest/doctest.h>

#include "tests/core/run/folded_training.h"
#include "tests/gpu_test.h"

namespace neap {

TEST_CASE("on a GPU, a step with folded batch norms is as exact as one without") {
  const std::unique_ptr<CudaDevice> gpu = testing::OpenGpuOrSkip();
  if (gpu) testing::CheckFoldingIsClose(*gpu);
}

TEST_CASE("on a GPU, training with folded batch norms has the same bits under every plan") {
  const std::unique_ptr<CudaDevice> gpu = testing::OpenGpuOrSkip();
  if (gpu) testing::CheckFoldedPlans(*gpu);
}

}  // namespace neap
