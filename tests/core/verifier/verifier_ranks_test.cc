// Verdicts on the sums over ranks and the slices of a sharded optimizer.
#include <doctest/doctest.h>

#include <string>

#include "neap/core/verifier/verifier.h"
#include "tests/core/verifier/verdict.h"
#include "tests/plan_script.h"

namespace neap {
namespace {

TEST_CASE("ranks sum what is complete, and nothing uses a gradient before its sum") {
  CHECK(Fault(kSumPlan, "  wait collective first\n", "") == "race");
  CHECK(Fault(kSumPlan, "  wait collective second\n", "") == "race");
  CHECK(Fault(kSumPlan, "  wait compute two ", "  # ") == "race");
  CHECK(Fault(kSumPlan, "  wait compute two ", "  wait compute one ") == "race");
  CHECK(Fault(kSumPlan, "  two: sum f\n  wait compute two ", "  # ") == "step-order");
  // The first gradient is freed before it is summed, and its bytes while they are.
  CHECK(Fault(kSumPlan, "  free y\n", "  free y\n  free h\n") == "not-allocated");
  CHECK(Fault(kSumPlan, "  alloc g 6\n", "  free h\n  alloc g 5\n") == "race");
  CHECK(Fault(kSumPlan, "  one: sum e\n", "  one: run e all_reduce\n") == "collective");
  CHECK(FaultAfter(PlanFromScript(kSumPlan),
                   [](Plan& plan) { plan.steps[2].phase = Phase::kUpdate; }) == "collective");
  CHECK(FaultAfter(PlanFromScript(kSumPlan), [](Plan& plan) {
          plan.steps[2].reads = plan.steps[2].accumulates;
        }) == "bad-step");
  CHECK(Verdict(Edited(kSumPlan, "  wait compute two ", "  wait compute one ")) ==
        "plan fault [race]: action 17 (compute step 5 'f update'): it reads bytes before action 15 "
        "(collective step 4 'f all_reduce') is known to have finished: stream compute has to wait");
}

TEST_CASE("what the ranks sum in forward is neither read before its sum nor rebuilt without it") {
  CHECK(Fault(kForwardSumPlan, "  wait compute sum\n", "") == "race");
  CHECK(Fault(kForwardSumPlan, "  wait collective own\n", "") == "race");
  CHECK(Fault(kForwardSumPlan, "  wait d2h sum\n", "") == "race");
  CHECK(
      Verdict(Edited(kForwardSumPlan, "  rerun f\n", "  rerun f\n  alloc s 2\n  rerun a\n")) ==
      "plan fault [collective]: action 19 (recompute step 0 'a forward'): it would write tensor 1 "
      "'s' without its sum over the ranks");
  CHECK(Verdict(Edited(Edited(kForwardSumPlan, "  step a all_reduce",
                              "  step e forward reads s\n  step a all_reduce"),
                       "  wait collective own\n", "  run e forward\n  wait collective own\n")) ==
        "plan fault [collective]: action 3 (compute step 1 'e forward'): it reads tensor 1 's' "
        "before its sum");
}

TEST_CASE("a rank reads what is gathered, and updates its own slice with its sum") {
  CHECK(Verdict(kShardPlan) == "");
  CHECK(Fault(kShardPlan, "  wait compute whole\n", "") == "race");
  CHECK(Fault(kShardPlan, "  wait collective done\n", "") == "race");
  CHECK(Fault(kShardPlan, "  wait compute summed\n", "") == "race");
  const auto after = [](const auto& edit) { return FaultAfter(PlanFromScript(kShardPlan), edit); };
  const auto slice = [&](size_t i, Slice slice) {
    return after([&](Plan& plan) { plan.steps[4].slices[i].second = slice; });
  };
  // More of the gradient, or of the parameter, than the rank's slice; another rank's.
  CHECK(slice(0, {0, 129}) == "shard");
  CHECK(slice(1, {0, 129}) == "shard");
  CHECK(slice(1, {128, 128}) == "shard");
  CHECK(slice(0, {0, 64}) == "");
  CHECK(slice(0, {192, 65}) == "bad-step");
  CHECK(slice(0, {-1, 2}) == "bad-step");
  CHECK(after([](Plan& plan) { plan.steps[4].slices.pop_back(); }) == "shard");
  CHECK(after([](Plan& plan) { plan.steps[4].slices.erase(plan.steps[4].slices.begin()); }) ==
        "shard");
  CHECK(after([](Plan& plan) { plan.steps[4].slices.push_back(plan.steps[4].slices[0]); }) ==
        "bad-step");
  CHECK(after([](Plan& plan) { plan.tensors[0].own = Slice{129, 128}; }) == "bad-tensor");
  CHECK(after([](Plan& plan) { plan.tensors[3].own = Slice{0, 1}; }) == "bad-tensor");
  // Parameters that are summed, gradients as a whole, and what no rank has a slice of.
  CHECK(after([](Plan& plan) { plan.steps[3].phase = Phase::kAllReduce; }) == "shard");
  CHECK(after([](Plan& plan) { plan.steps[3].phase = Phase::kAllGather; }) == "shard");
  CHECK(after([](Plan& plan) { plan.steps[0].phase = Phase::kReduceScatter; }) == "shard");
  CHECK(after([](Plan& plan) { plan.tensors[4].own.reset(); }) == "shard");
}

TEST_CASE("a parameter is not read before it is gathered, nor a gradient before its sum") {
  const char* const early = R"(
    batch 1 budget 4 arena 4 peak 4 activations 1024 host 0
    tensor v param 1024 own 0 128
    tensor x input 1024
    tensor y activation 1024
    tensor g param_grad 1024 own 0 128
    step f forward reads x v writes y
    step f backward_params reads x y writes g
    step f update reads g accumulates v slices g:0:128 v:0:128
    step f all_gather accumulates v
    step f reduce_scatter accumulates g
    alloc v 0
    alloc x 1
    alloc y 2
    run f forward
    alloc g 3
    run f backward_params
    free x
    free y
    updated: run f update
    wait collective updated
    gather f
    scatter f
    free g
  )";
  CHECK(Verdict(early) ==
        "plan fault [shard]: action 3 (compute step 0 'f forward'): it reads tensor 0 'v' before "
        "the other ranks' slices are gathered");
  CHECK(Verdict(Edited(early, "reads x v writes", "reads x writes")) ==
        "plan fault [shard]: action 8 (compute step 2 'f update'): it reads tensor 3 'g' before "
        "its sum");
  // Behind the update, the other slices are old again.
  const std::string again = Edited(kShardPlan, "  step f update",
                                   "  step h forward reads v\n"
                                   "  step f update");
  CHECK(Verdict(Edited(again, "  run f update\n", "  run h forward\n  run f update\n")) == "");
  const std::string behind = Edited(kShardPlan, "v:0:128\n", "v:0:128\n  step h forward reads v\n");
  CHECK(Verdict(Edited(behind, "  run f update\n", "  run f update\n  run h forward\n")) ==
        "plan fault [shard]: action 15 (compute step 5 'h forward'): it reads tensor 0 'v' before "
        "the other ranks' slices are gathered");
}

}  // namespace
}  // namespace neap
