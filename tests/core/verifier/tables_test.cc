// Tables of a plan that contradict themselves, whatever its actions do.
#include <doctest/doctest.h>

#include "neap/core/verifier/verifier.h"
#include "tests/core/verifier/verdict.h"
#include "tests/plan_script.h"

namespace neap {
namespace {

TEST_CASE("a step names what it changes once, in writes or in accumulates") {
  CHECK(Fault(kPlainPlan, "writes y accumulates m", "writes y accumulates m m") == "bad-step");
  CHECK(Fault(kPlainPlan, "writes y accumulates m", "writes y m accumulates m") == "bad-step");
  CHECK(Fault(kPlainPlan, "reads dw accumulates w", "reads dw accumulates w w") == "bad-step");
  CHECK(Fault(kSumPlan, "all_reduce accumulates g", "all_reduce accumulates g g") == "bad-step");
  CHECK(Verdict(Edited(kPlainPlan, "reads x w writes y", "reads x w x writes y")) == "");
}

TEST_CASE("a step lists a pair in place once, and reruns read what it reads or writes") {
  CHECK(Fault(kInPlacePlan, "in_place b/a", "in_place b/a b/a") == "bad-step");
  CHECK(Fault(kRecomputePlan, "rerun x s", "rerun x s r") == "bad-step");
  CHECK(Verdict(Edited(kRecomputePlan, "rerun x s", "rerun x s x")) == "");
}

TEST_CASE("a step of all ranks adds to whole tensors, and to at least one") {
  CHECK(Fault(kSumPlan, "all_reduce accumulates g", "all_reduce accumulates g slices g:0:1") ==
        "bad-step");
  CHECK(FaultAfter(PlanFromScript(kSumPlan), [](Plan& plan) {
          for (PlanStep& step : plan.steps) {
            if (IsCollective(step.phase)) step.accumulates.clear();
          }
        }) == "bad-step");
}

TEST_CASE("two persistent tensors have two names") {
  const Plan plan = PlanFromScript(kPlainPlan);
  CHECK(FaultAfter(plan, [](Plan& p) { p.tensors[1].name = p.tensors[0].name; }) == "bad-tensor");
  Plan activations = plan;
  activations.tensors[4].name = activations.tensors[3].name;
  CHECK(Verify(activations).ok());
}

}  // namespace
}  // namespace neap
