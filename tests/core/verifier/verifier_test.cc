#include "neap/core/verifier/verifier.h"

#include <doctest/doctest.h>

#include <string>

#include "tests/core/verifier/verdict.h"
#include "tests/plan_script.h"

namespace neap {
namespace {

TEST_CASE("valid plans are accepted") {
  CHECK(Verdict(kPlainPlan) == "");
  CHECK(Verdict(kInPlacePlan) == "");
  CHECK(Verdict(kTransferPlan) == "");
  CHECK(Verdict(kRecomputePlan) == "");
  CHECK(Verdict(kPersistentTransferPlan) == "");
  CHECK(Verdict(kPoolsPlan) == "");
  CHECK(Verdict(kResidentPlan) == "");
  CHECK(Verdict(kSumPlan) == "");
  CHECK(Verdict(kForwardSumPlan) == "");
  CHECK(Verify(Plan{.batch = 1}).ok());
}

TEST_CASE("a fault names the action, the step, the tensor and the numbers") {
  CHECK(Verdict(Edited(kPlainPlan, "alloc dw 4", "alloc dw 3")) ==
        "plan fault [overlap]: action 8 (alloc tensor 5 'dw'): 1024 bytes at 3072 overlap 2048 "
        "bytes at "
        "2048, in use by tensor 2 'x', which the next step does not replace in place");
  CHECK(
      Verdict(Edited(kTransferPlan, "  wait d2h made\n", "")) ==
      "plan fault [race]: action 4 (offload tensor 2 'a'): it reads bytes before action 3 (compute "
      "step 0 'f1 forward') is known to have finished: stream d2h has to wait");
  CHECK(Verdict(Edited(kPlainPlan, "peak 8", "peak 7")) ==
        "plan fault [totals]: the plan: peak_bytes is 7168, but its actions reach 8192");
}

TEST_CASE("a negative total or a missing batch is refused") {
  CHECK(Fault(kPlainPlan, "batch 4", "batch 0") == "bad-header");
  CHECK(Fault(kPlainPlan, "host 0", "host -1") == "bad-header");
  CHECK(FaultAfter(PlanFromScript(kPlainPlan), [](Plan& plan) { plan.predicted_ms = -1; }) ==
        "bad-header");
}

TEST_CASE("ids must be positions, and those named must exist") {
  const Plan plan = PlanFromScript(kPlainPlan);
  CHECK(FaultAfter(plan, [](Plan& p) { p.tensors[2].id = TensorId(1); }) == "bad-id");
  CHECK(FaultAfter(plan, [](Plan& p) { p.steps[2].id = StepId(3); }) == "bad-id");
  CHECK(FaultAfter(plan, [](Plan& p) { p.steps[0].reads[0] = TensorId(6); }) == "bad-id");
  CHECK(FaultAfter(plan, [](Plan& p) { p.actions[0] = FreeAction{TensorId(-1)}; }) == "bad-id");
  CHECK(FaultAfter(plan, [](Plan& p) { p.actions[4] = ComputeAction{StepId(4)}; }) == "bad-id");
  CHECK(FaultAfter(plan, [](Plan& p) { p.actions[4] = ComputeAction{StepId(-1)}; }) == "bad-id");
}

TEST_CASE("a tensor's bytes must be its shape times its dtype") {
  const Plan plan = PlanFromScript(kPlainPlan);
  CHECK(FaultAfter(plan, [](Plan& p) { p.tensors[0].bytes = 1020; }) == "bad-tensor");
  CHECK(FaultAfter(plan, [](Plan& p) { p.tensors[0].shape = Shape{-256}; }) == "bad-tensor");
  CHECK(FaultAfter(plan, [](Plan& p) { p.tensors[0].shape = Shape{0}; }) == "bad-tensor");
  CHECK(FaultAfter(plan, [](Plan& p) {
          p.tensors[0].shape = Shape{int64_t{1} << 32, int64_t{1} << 32};
        }) == "bad-tensor");
}

TEST_CASE("a step must not contradict itself") {
  CHECK(Fault(kInPlacePlan, "in_place b/a", "in_place b/x") == "bad-step");
  CHECK(Fault(kInPlacePlan, "reads b writes c in_place",
              "reads b writes c accumulates b in_place") == "bad-step");
  CHECK(Fault(kRecomputePlan, "writes y s", "writes y s y") == "bad-step");
  CHECK(Fault(kRecomputePlan, "reads z writes g", "reads z writes g rerun z") == "bad-step");
}

TEST_CASE("everything must lie in the arena, and the arena within the budget, block by block") {
  CHECK(Fault(kPlainPlan, "budget 9", "budget 8") == "over-budget");
  CHECK(Fault(kPlainPlan, "arena 9", "arena 7") == "out-of-arena");
  CHECK(Fault(kPlainPlan, "alloc w 0", "alloc w -1") == "out-of-arena");
  CHECK(Fault(kPlainPlan, "workspace 6 2", "workspace 8 2") == "out-of-arena");
  CHECK(Fault(kPlainPlan, "workspace 6 2", "workspace 6 0") == "out-of-arena");
  CHECK(Fault(kPlainPlan, "alloc w 0", "alloc w 9007199254740991") == "out-of-arena");
  CHECK(Fault(kPlainPlan, "alloc y 4", "alloc y 4 1") == "too-small");
  const Plan plan = PlanFromScript(kPlainPlan);
  CHECK(FaultAfter(plan, [](Plan& p) {
          std::get<AllocAction>(p.actions[3]).region.offset += 512;
        }) == "misaligned");
  CHECK(FaultAfter(plan, [](Plan& p) {
          std::get<ComputeAction>(p.actions[4]).workspace->bytes = 2000;
        }) == "misaligned");
}

TEST_CASE("regions in use must not overlap") {
  CHECK(Fault(kPlainPlan, "alloc y 4", "alloc y 3") == "overlap");
  CHECK(Fault(kPlainPlan, "alloc y 4", "alloc y 2") == "overlap");
  CHECK(Fault(kPlainPlan, "workspace 6 2", "workspace 5 2") == "overlap");
  CHECK(Fault(kPlainPlan, "  free y\n  alloc dw 4", "  alloc dw 4\n  free y") == "overlap");
}

TEST_CASE("a tensor is allocated once, and only an allocated tensor is touched or freed") {
  CHECK(Fault(kPlainPlan, "alloc g 6", "alloc y 6") == "double-alloc");
  CHECK(Fault(kPlainPlan, "  free g\n", "  free g\n  free g\n") == "not-allocated");
  CHECK(Fault(kPlainPlan, "  alloc g 6\n", "") == "not-allocated");
  CHECK(Fault(kPlainPlan, "  free x\n  free g\n", "  free g\n  offload g 0\n") == "not-allocated");
}

TEST_CASE("a value that is read must have been written and not lost") {
  CHECK(Fault(kPlainPlan, "  run loss forward\n", "  free y\n  alloc y 4\n  run loss forward\n") ==
        "no-value");
  CHECK(Fault(kPlainPlan, "writes y accumulates m", "writes y accumulates m g") == "not-allocated");
  CHECK(Fault(kTransferPlan, "  in: prefetch a\n  wait compute in\n", "") == "no-value");
  CHECK(Fault(kTransferPlan, "  alloc b 4\n", "  alloc b 4\n  offload b 0\n") == "no-value");
}

TEST_CASE(
    "a tensor takes over another's bytes only in the step that reads the one and writes the "
    "other") {
  CHECK(Fault(kInPlacePlan, "in_place b/a", "") == "overlap");
  CHECK(Fault(kInPlacePlan, "  free b\n", "") == "leak");
  // One step too early, over a part of the region, over a tensor that was itself replaced.
  CHECK(Fault(kInPlacePlan, "  alloc a 2\n  run conv forward\n",
              "  alloc a 2\n  alloc b 2\n  run conv forward\n") == "overlap");
  CHECK(Fault(kInPlacePlan, "alloc b 2", "alloc b 2 3") == "too-small");
  CHECK(Fault(kInPlacePlan, "relu forward reads b writes c in_place c/b",
              "relu forward reads b a writes c in_place c/a") == "overlap");
}

TEST_CASE("a tensor whose bytes were taken over is neither read nor freed early nor written") {
  CHECK(Fault(kInPlacePlan, "step relu forward reads b", "step relu forward reads b a") ==
        "not-allocated");
  const std::string kept =
      Edited(Edited(kInPlacePlan, "  free a\n", ""), "  free c\n", "  free c\n  free a\n");
  CHECK(Verdict(kept) == "");
  CHECK(Fault(kept, "step relu forward reads b", "step relu forward reads b a") == "in-place");
  CHECK(Fault(kept, "step loss forward reads c", "step loss forward reads c writes a") ==
        "in-place");
  CHECK(Fault(kept, "  run bn forward\n", "  free a\n  run bn forward\n") == "in-place");
  CHECK(Fault(kept, "  run bn forward\n", "  run bn forward\n  offload a 0\n") == "in-place");
  CHECK(Fault(kept, "  run bn forward\n", "  offload b 0\n  run bn forward\n") == "in-place");
}

TEST_CASE("a recomputation in place must read what it replaces") {
  const std::string plan = Edited(kRecomputePlan, "rerun x s", "rerun s in_place y/x");
  CHECK(Verdict(plan) == "");
  CHECK(Fault(plan, "alloc y 6", "alloc y 1") == "in-place");
}

TEST_CASE("all other tensors are freed") {
  CHECK(Fault(kPlainPlan, "  free dw\n", "") == "leak");
  CHECK(Fault(kPlainPlan, "  free x\n", "") == "leak");
}

TEST_CASE("steps run once each, in order") {
  CHECK(Fault(kPlainPlan, "  run conv update\n", "") == "missing-step");
  CHECK(Fault(kPlainPlan, "  run loss forward\n", "  run loss forward\n  run loss forward\n") ==
        "step-order");
  CHECK(Fault(kPlainPlan, "  run loss forward\n", "") == "step-order");
}

TEST_CASE("only forward steps that have run can be run again") {
  CHECK(Fault(kRecomputePlan, "  run f forward\n", "  rerun f\n  run f forward\n") == "recompute");
  Plan plan = PlanFromScript(kPlainPlan);
  std::get<ComputeAction>(plan.actions[12]).recompute = true;
  CHECK(FaultOf(Verify(plan)) == "recompute");
}

TEST_CASE("a recomputation reads what the first run read, and does not accumulate") {
  // Without `rerun` it reads only x and writes s again, which then only needs a place.
  const std::string plain = Edited(kRecomputePlan, "rerun x s", "");
  CHECK(Verdict(plain) == "");
  const std::string dropped =
      Edited(plain, "  free y\n  alloc g 4", "  free y\n  free s\n  alloc s 3\n  alloc g 4");
  CHECK(Verdict(dropped) == "");
  CHECK(Fault(kRecomputePlan, "  free y\n  alloc g 4", "  alloc g 4") == "overlap");
  const std::string reads_lost = Edited(dropped, "reads x writes y s accumulates r ",
                                        "reads x writes y s accumulates r rerun x s");
  CHECK(FaultOf(Verify(PlanFromScript(reads_lost))) == "no-value");
  // r, into which the first run accumulates, may be anywhere.
  CHECK(Fault(kRecomputePlan, "reads x writes y s", "reads x r writes y s") == "");
  CHECK(Fault(plain, "step bn forward reads x", "step bn forward reads x r") == "stale-read");
  // x has changed since.
  CHECK(Fault(kRecomputePlan, "reads z writes g", "reads z writes g accumulates x") ==
        "stale-read");
}

TEST_CASE("a recomputed value is that of the first run") {
  // y is accumulated into after its first run; recomputed, it lacks the sum.
  CHECK(Fault(kRecomputePlan, "step f forward reads y writes z",
              "step f forward accumulates y writes z") == "stale-read");
}

TEST_CASE("micro-batches make up the batch") {
  CHECK(Fault(kPlainPlan, "a:3 b:1", "a:3 b:2") == "bad-engines");
  CHECK(Fault(kPlainPlan, "a:3 b:1", "a:3") == "bad-engines");
  CHECK(Fault(kPlainPlan, "a:3 b:1", "a:5 b:-1") == "bad-engines");
  CHECK(Fault(kPlainPlan, "a:3 b:1", "a:3 b:1+") == "bad-engines");  // not backward_params
  CHECK(Fault(kPlainPlan, "a:3 b:1", "a:3+ b:1") == "bad-engines");
}

TEST_CASE(
    "a step runs again by the engines of its first run, unless it reads something else then") {
  const std::string again = Edited(Edited(Edited(kRecomputePlan, "rerun x s", ""),
                                          "run bn forward\n", "run bn forward engines a:1\n"),
                                   "rerun bn\n", "rerun bn engines a:1\n");
  CHECK(Verdict(again) == "");
  CHECK(Fault(again, "rerun bn engines a:1", "rerun bn engines b:1") == "bad-engines");
  CHECK(Fault(again, "rerun bn engines a:1", "rerun bn") == "bad-engines");
  CHECK(Verdict(Edited(kRecomputePlan, "rerun bn\n", "rerun bn engines b:1\n")) == "");
}

TEST_CASE("a wait is for an earlier action that runs on a stream") {
  CHECK(Fault(kTransferPlan, "wait compute in", "wait compute 90") == "bad-wait");
  CHECK(Fault(kTransferPlan, "wait compute in", "wait compute -1") == "bad-wait");
  CHECK(Fault(kTransferPlan, "wait compute in", "wait compute 19") == "bad-wait");  // itself
  CHECK(Fault(kTransferPlan, "wait compute in", "wait compute 0") == "bad-wait");   // an alloc
}

TEST_CASE("bytes that two streams touch, one of them writing, need a wait between") {
  const auto without = [](std::string_view wait) {
    const std::string script(kTransferPlan);
    const size_t begin = script.find(wait);
    REQUIRE(begin != std::string::npos);
    return FaultOf(Verify(PlanFromScript(
        Edited(script, script.substr(begin, script.find('\n', begin) - begin), ""))));
  };
  CHECK(without("wait d2h made") == "race");     // a is offloaded before it is written
  CHECK(without("wait compute out") == "race");  // c is written before the offload of a ends
  CHECK(without("wait h2d read") == "race");     // a is prefetched while c is still read
  CHECK(without("wait compute in") == "race");   // a is read before its prefetch ends
  // Waiting for an earlier action of the same stream is not enough.
  CHECK(Fault(kTransferPlan, "wait compute in", "wait compute out") == "race");
  CHECK(Fault(kTransferPlan, "wait h2d read", "wait h2d out") == "race");
}

TEST_CASE("a workspace must not use bytes that a transfer still touches") {
  const char* const script = R"(
    batch 1 budget 3 arena 3 peak 2 activations 0 host 1 host_pool 1
    tensor w param 1024
    tensor x input 1024
    step a forward reads w
    alloc w 0
    alloc x 1
    out: offload x 0
    free x
    wait compute out
    run a forward workspace 1 1
  )";
  CHECK(Verdict(script) == "");
  CHECK(Fault(script, "    wait compute out\n", "") == "race");
}

TEST_CASE("a copy is not read before it is whole, nor written while it is read") {
  const char* const script = R"(
    batch 1 budget 3 arena 3 peak 3 activations 0 host 1 host_pool 1
    tensor w param 1024
    step a forward reads w
    alloc w 0
    out: offload w 0
    run a forward
    free w
    alloc w 1
    wait h2d out
    in: prefetch w
    wait d2h in
    again: offload w 0
    free w
    alloc w 0
    wait h2d again
    prefetch w
    free w
    alloc w 2
    prefetch w
    free w
    alloc w 0
    prefetch w
  )";
  const std::string ordered =
      Edited(script, "    run a forward\n", "    used: run a forward\n    wait h2d used\n");
  CHECK(Verdict(ordered) == "");
  CHECK(Fault(ordered, "    wait d2h in\n", "") == "race");
  CHECK(Fault(ordered, "    wait h2d again\n", "") == "race");
  CHECK(Fault(ordered, "    wait h2d used\n", "") == "race");
}

TEST_CASE("a prefetch needs a copy of the current value") {
  CHECK(Fault(kTransferPlan, "  out: offload a 0\n", "  out: offload x 0\n") == "copy");
  const std::string changed =
      Edited(kTransferPlan, "  alloc b 4\n", "  alloc b 4\n  wait compute out\n");
  CHECK(Verdict(changed) == "");
  CHECK(Fault(changed, "step f2 forward reads a writes b",
              "step f2 forward accumulates a writes b") == "copy");
  CHECK(Fault(kPersistentTransferPlan, "step big forward reads y",
              "step big forward accumulates w reads y") == "not-allocated");
}

TEST_CASE("the totals are exactly those of the actions") {
  CHECK(Fault(kPlainPlan, "peak 8", "peak 9") == "totals");
  CHECK(Fault(kPlainPlan, "activations 3000", "activations 2999") == "totals");
  CHECK(Fault(kTransferPlan, "host 2", "host 1") == "totals");
  CHECK(Fault(kTransferPlan, "host 2", "host 3") == "totals");
  CHECK(Fault(kPlainPlan, "alloc g 6", "alloc g 7") == "totals");
}

}  // namespace
}  // namespace neap
