// Plans that move and recompute tensors, made from plans that keep them; for tests of code that
// executes plans.
//
// Policies decide what is worth moving; here every selected tensor is evicted as soon as forward
// is done with it and returns right before backward needs it. Four simple passes decide which
// tensors move (Evict), their places in the arena (Place) and in the pools (PlaceCopies), and the
// waits (AddWaits).
//
//   Plan plan = Evict(liveness, {.offload = [](const PlanTensor& t) { return ...; }});
//   Place(plan, Reuse::kNone);
//   PlaceCopies(plan, Reuse::kFirstFit);
//   AddWaits(plan);
//   RecomputeTotals(plan);   // tests/core/verifier/plan_interpreter.h
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "neap/core/plan/plan.h"

namespace neap {

using TensorFilter = std::function<bool(const PlanTensor&)>;
struct Eviction {
  TensorFilter offload = [](const PlanTensor&) { return false; };
  TensorFilter drop = [](const PlanTensor&) { return false; };  // and recompute
};

// The filters apply to tensors that both forward and backward steps touch. Regions and
// waits are left to the other passes. `plan` keeps everything from first to last use in a separate
// region (no in-place results).
Plan Evict(const Plan& plan, const Eviction& eviction);

enum class Reuse : uint8_t {
  kNone,      // every allocation and workspace has separate bytes
  kFirstFit,  // the lowest free bytes
};
// Sets all regions, the arena and the budget.
void Place(Plan& plan, Reuse reuse);

// Sets the offsets of all offloads, and the pools' bytes. No tensor may be on the host between
// iterations.
void PlaceCopies(Plan& plan, Reuse reuse);

// Before each action, waits for the last conflicting action of every other stream.
void AddWaits(Plan& plan);

// The plan without its waits.
std::vector<Action> WithoutWaits(const std::vector<Action>& actions);

}  // namespace neap
