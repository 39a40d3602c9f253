#include "tests/core/run/dense_training.h"

#include <doctest/doctest.h>

#include "tests/small_training.h"

namespace neap {

TEST_CASE("a small DenseNet trains to the same bits with and without fusion") {
  testing::CheckDenseNetFusion(*OpenCpu());
}

}  // namespace neap
