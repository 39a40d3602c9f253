#include <doctest/doctest.h>

#include "tests/core/run/dense_training.h"
#include "tests/gpu_test.h"

namespace neap {

TEST_CASE("on a GPU, a small DenseNet trains to the same bits with and without fusion") {
  const std::unique_ptr<CudaDevice> gpu = testing::OpenGpuOrSkip();
  if (gpu) testing::CheckDenseNetFusion(*gpu);
}

}  // namespace neap
