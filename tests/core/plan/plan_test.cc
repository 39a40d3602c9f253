#include "neap/core/plan/plan.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/core/plan/small_plan.h"

namespace neap {
namespace {

TEST_CASE("the summary lists device, budget, peak, recomputations and predicted time") {
  CHECK("\n" + SmallPlan().Summary() == R"(
tiny, batch 2, fp32 nchw, policy liveness, on NVIDIA H200
  budget               8.000 KiB
  arena = peak         4.000 KiB (4096 bytes)
  parameters           40 B
  optimizer            0 B
  states               0 B
  input                0 B
  activation peak      0.001 MiB (1500 bytes) at step 2, relu forward, with 2 live tensors
  rebuilt              1 extra forward steps
  steps                3, predicted 0.125 ms
)");
}

TEST_CASE("a plan without actions has a summary too") { CHECK(!Plan{}.Summary().empty()); }

TEST_CASE("equal plans have equal hashes, different ones different hashes") {
  Plan plan = SmallPlan();
  CHECK(plan.Hash() == SmallPlan().Hash());
  std::get<AllocAction>(plan.actions[0]).region.offset = 1024;
  CHECK(plan.Hash() != SmallPlan().Hash());
  plan = SmallPlan();
  std::get<OffloadAction>(plan.actions[6]).offset = 1024;
  CHECK(plan.Hash() != SmallPlan().Hash());
}

}  // namespace
}  // namespace neap
