#include "neap/core/verifier/given.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/core/verifier/verdict.h"
#include "tests/plan_script.h"

namespace neap {
namespace {

TEST_CASE("given values have distinct places before the first compute action") {
  CHECK(Fault(kPlainPlan, "  alloc m 1\n  alloc x 2\n  alloc y 4\n  run conv forward",
              "  alloc x 2\n  alloc y 4\n  alloc m 1\n  run conv forward") == "");
  CHECK(Fault(kRecomputePlan, "tensor z activation", "tensor z input") == "given");
  CHECK(Fault(kRecomputePlan, "  alloc r 0\n", "  alloc r 1\n  free r\n  alloc r 0\n") == "given");
  const std::string unused = Edited(kPlainPlan, "  tensor dw", "  tensor l label 4\n  tensor dw");
  CHECK(Verdict(unused) == "");
  CHECK(Fault(unused, "free dw\n", "free dw\n  alloc l 7\n  free l\n") == "given");
  CHECK(Fault(unused, "reads dw ", "reads dw l ") == "not-allocated");
}

TEST_CASE("a persistent tensor is back in its place, with its value, when the plan ends") {
  CHECK(Fault(kPlainPlan, "free dw\n", "free dw\n  free w\n") == "end-state");
  CHECK(Fault(kPlainPlan, "free dw\n", "free dw\n  free w\n  alloc w 0\n") == "end-state");
  CHECK(Fault(kPlainPlan, "free dw\n", "free dw\n  free w\n  alloc w 4\n") == "end-state");
  CHECK(Fault(kPlainPlan, "tensor dw", "tensor v optimizer 4\n  tensor dw") == "end-state");
  CHECK(Fault(kPersistentTransferPlan, "  free z\n  alloc w 2", "  free z\n  alloc w 3") ==
        "end-state");
}

// The plain plan with a label that no step reads, and a place for it.
std::string WithLabel(std::string_view actions = "") {
  return Edited(Edited(kPlainPlan, "  tensor dw", "  tensor l label 4\n  tensor dw"),
                "  alloc w 0\n", "  alloc w 0\n" + std::string(actions));
}

TEST_CASE("an unused given value may have no place, or one before the first compute action") {
  CHECK(Verdict(WithLabel()) == "");
  CHECK(Verdict(WithLabel("  alloc l 7\n  free l\n")) == "");
  // y is written over it.
  CHECK(Verdict(WithLabel("  alloc l 4\n  free l\n")) == "");
  CHECK(Fault(WithLabel(), "  run conv forward w", "  alloc l 7\n  run conv forward w") ==
        "overlap");
  CHECK(Fault(WithLabel("  alloc l 4\n  free l\n"), "  alloc l 4\n  free l\n",
              "  alloc l 7\n") == "overlap");  // with the workspace
  CHECK(Fault(WithLabel("  alloc l 7\n  free l\n"), "  free l\n", "") == "overlap");
}

TEST_CASE("an unused given value must not overlap another tensor at any time") {
  // The place of the input or of a weight, before they have it.
  CHECK(Fault(WithLabel(), "  alloc x 2\n", "  alloc l 3\n  free l\n  alloc x 2\n") == "given");
  CHECK(Fault(WithLabel(), "  alloc w 0\n", "  alloc l 0\n  free l\n  alloc w 0\n") == "given");
  // After the first step, where the input was, and beside everything.
  CHECK(Fault(WithLabel(), "  free x\n", "  free x\n  alloc l 2\n  free l\n") == "given");
  CHECK(Fault(WithLabel(), "  free y\n", "  free y\n  alloc l 4\n  free l\n") == "given");
  const std::string lent =
      Edited(kPersistentTransferPlan, "  tensor dw", "  tensor l label 4\n  tensor dw");
  CHECK(Verdict(lent) == "");
  // Where the weight lies when the iteration begins and ends.
  CHECK(Fault(lent, "  wait compute out\n", "  alloc l 2\n  free l\n  wait compute out\n") ==
        "given");
  CHECK(Fault(lent, "  free z\n", "  free z\n  alloc l 2\n  free l\n") == "given");
}

TEST_CASE("a given value must not lie where an earlier prefetch writes") {
  const std::string script =
      Edited(kResidentPlan, "  tensor dw", "  tensor l label 4\n  tensor dw");
  CHECK(Verdict(script) == "");
  CHECK(Fault(script, "  in: prefetch w\n",
              "  prefetch w\n  free w\n  alloc l 1\n  free l\n  alloc w 1\n  in: prefetch w\n") ==
        "given");
  CHECK(Verdict(Edited(script, "  in: prefetch w\n",
                       "  prefetch w\n  alloc l 2\n  free l\n  in: prefetch w\n")) == "");
}

TEST_CASE("a given value that is freed is lost, wherever it is allocated again") {
  CHECK(Fault(kPlainPlan, "  alloc y 4\n", "  free x\n  alloc y 4\n") == "not-allocated");
  CHECK(Fault(kPlainPlan, "  alloc y 4\n", "  free x\n  alloc x 2\n  alloc y 4\n") == "no-value");
}

TEST_CASE("an unused persistent tensor is also always in its place") {
  const std::string script =
      Edited(Edited(Edited(kPlainPlan, "  tensor dw", "  tensor v optimizer 4\n  tensor dw"),
                    "peak 8", "peak 9"),
             "  alloc y 4\n", "  alloc v 8\n  alloc y 4\n");
  CHECK(Verdict(script) == "");
  CHECK(Fault(script, "  alloc v 8\n", "") == "end-state");
  CHECK(Fault(script, "  alloc v 8\n", "  alloc v 8\n  free v\n") == "end-state");
  CHECK(Fault(script, "  free dw\n", "  free dw\n  free v\n") == "end-state");
  CHECK(Fault(script, "  free dw\n", "  free dw\n  free v\n  alloc v 8\n") == "end-state");
  const std::string late =
      Edited(Edited(script, "  alloc v 8\n", ""), "  alloc g 6\n", "  alloc g 6\n  alloc v 8\n");
  CHECK(FaultOf(Verify(PlanFromScript(late))) == "given");
  CHECK(Fault(script, "  alloc v 8\n", "  alloc v 3\n") == "overlap");  // the input
  // It may be offloaded and prefetched.
  CHECK(Verdict(Edited(Edited(script, "host 0", "host 1 host_pool 1"), "  free dw\n",
                       "  free dw\n  out: offload v 0\n  free v\n  alloc v 8\n  wait h2d out\n"
                       "  prefetch v\n")) == "");
}

TEST_CASE("a tensor that is on the host between iterations needs no place in the arena") {
  // v, which no step uses, has none in the plan as it is.
  CHECK(Verdict(kResidentPlan) == "");
  const auto at_end = [](std::string_view actions) {
    return FaultOf(Verify(PlanFromScript(
        Edited(kResidentPlan, "  offload w 1\n", "  offload w 1\n" + std::string(actions)))));
  };
  CHECK(at_end("  alloc v 2\n  free v\n") == "");
  CHECK(at_end("  alloc v 2\n") == "end-state");
  CHECK(at_end("  alloc v 2\n  offload v 0\n  free v\n") == "no-value");
  CHECK(at_end("  alloc v 2\n  prefetch v\n  free v\n") == "");
  CHECK(at_end("  alloc v 2\n  last: prefetch v\n  wait d2h last\n  offload v 0\n  free v\n") ==
        "");
}

}  // namespace
}  // namespace neap
