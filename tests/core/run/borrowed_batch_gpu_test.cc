// Images that a session borrows, in the memory of a GPU.
#include <doctest/doctest.h>

#include <memory>

#include "tests/core/run/borrowed_batch.h"
#include "tests/gpu_test.h"

namespace neap {

TEST_CASE("on a GPU, batches whose images are borrowed train to the same bits") {
  const std::unique_ptr<CudaDevice> gpu = testing::OpenGpuOrSkip();
  if (!gpu) return;
  CheckBorrowedBatches(*gpu);
}

}  // namespace neap
