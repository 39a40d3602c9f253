#include "tests/residual_training.h"

#include <doctest/doctest.h>

#include "tests/small_training.h"

namespace neap {

TEST_CASE("a small residual network trains to the same bits with and without fusion") {
  testing::CheckResidualNetFusion(*OpenCpu());
}

}  // namespace neap
