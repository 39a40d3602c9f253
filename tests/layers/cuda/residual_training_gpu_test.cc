#include <doctest/doctest.h>

#include "tests/gpu_test.h"
#include "tests/residual_training.h"

namespace neap {

TEST_CASE("on a GPU, a small residual network trains to the same bits with and without fusion") {
  const std::unique_ptr<CudaDevice> gpu = testing::OpenGpuOrSkip();
  if (gpu) testing::CheckResidualNetFusion(*gpu);
}

}  // namespace neap
