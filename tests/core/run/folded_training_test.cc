#include "tests/core/run/folded_training.h"

#include <doctest/doctest.h>

#include "tests/small_training.h"

namespace neap {

TEST_CASE("a step with folded batch norms is as exact as one without") {
  testing::CheckFoldingIsClose(*OpenCpu());
}

TEST_CASE("training with folded batch norms has the same bits under every plan") {
  testing::CheckFoldedPlans(*OpenCpu());
}

}  // namespace neap
