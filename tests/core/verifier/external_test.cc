// Plans with tensors in memory of the caller's.
#include <doctest/doctest.h>

#include <string>

#include "neap/core/plan/plan_memory.h"
#include "neap/core/plan/tensor_history.h"
#include "neap/core/plan/timeline.h"
#include "tests/core/verifier/verdict.h"
#include "tests/plan_script.h"

namespace neap {
namespace {

// The plain plan with its weight in the caller's memory.
std::string External() {
  return Edited(Edited(kPlainPlan, "tensor w param 1024", "tensor w param 1024 external"),
                "  alloc w 0\n", "");
}

TEST_CASE("an external tensor is valid from beginning to end without a place in the arena") {
  CHECK(Verdict(External()) == "");
  const Plan plan = PlanFromScript(External());
  CHECK(MemoryPerStep(plan)[0].live_bytes ==
        MemoryPerStep(PlanFromScript(kPlainPlan))[0].live_bytes - kBlockBytes);
  const auto count = static_cast<double>(plan.steps.size());
  TimelineCosts costs;
  costs.compute_seconds = SecondsEach(plan, 1 / count, 0);
  for (const TensorHistory& history : TensorHistories(plan, PredictTimeline(plan, costs))) {
    if (plan.tensors[history.tensor.index()].is_external)
      CHECK(Explain(plan, history) == "in memory of the caller's");
  }
  CHECK(plan.Summary().find("of these, in memory of the caller's") != std::string::npos);
  CHECK(PlanFromScript(kPlainPlan).Summary().find("the caller's") == std::string::npos);
}

TEST_CASE("an external tensor must not be allocated, freed or moved") {
  const std::string update = "  run conv update\n";
  for (const char* action : {"  alloc w 0\n", "  free w\n", "  offload w 0\n", "  prefetch w\n"}) {
    CAPTURE(action);
    CHECK(Fault(External(), update, action + update) == "external");
    CHECK(Fault(External(), update, update + action) == "external");
  }
}

TEST_CASE("only a persistent tensor is external, and not one that is on the host as well") {
  CHECK(Fault(kPlainPlan, "activation 1500", "activation 1500 external") == "bad-tensor");
  CHECK(Fault(kPlainPlan, "input 2048", "input 2048 external") == "bad-tensor");
  CHECK(FaultAfter(PlanFromScript(External()), [](Plan& plan) {
          plan.tensors[0].host_offset = 0;
          plan.host_resident_bytes = plan.host_pool_bytes = kBlockBytes;
        }) == "bad-tensor");
}

// The state s is summed over the ranks on a stream of its own.
TEST_CASE("accesses to an external tensor are ordered by waits") {
  const std::string external =
      Edited(Edited(Edited(kSumPlan, "tensor s state 4", "tensor s state 4 external"),
                    "  alloc s 2\n", ""),
             "accumulates h s", "accumulates s");
  CHECK(Verdict(external) == "");
  CHECK(Fault(external, "  wait collective first\n", "") == "race");
}

}  // namespace
}  // namespace neap
