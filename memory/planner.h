// The planner: decides what is where at every run of an iteration, and writes it down as a plan.
//
//   recomputation   the order of runs             recompute/recompute.h
//   residency       who stays, leaves, returns    memory/transfer/residency.h,
//   memory/transfer/overlap.h placement       at which address memory/placement/placement.h,
//   memory/placement/heap.h engines         with which workspace memory/engines/engine_table.h,
//   memory/engines/gain_rule.h pools           host or peer memory/transfer/pool_choice.h waits who
//   waits for whom            memory/transfer/waits.h
//
// Tensors come first, workspaces get what remains, or more where that is worth a tensor's way out
// and back; so a tight budget costs speed before it costs anything else. Residency counts bytes,
// and placement may leave gaps, so several levels of memory are tried and the fastest that fits is
// taken (memory/plan_search.h).
//
//   ASSIGN_OR_RETURN(PlanResult result,
//                    MakePlan(program, {.budget_bytes = 12 * kGiB, .policy = "superneurons"},
//                             description, catalog));
//   result.plan.peak_bytes;               // <= budget, and what will be measured
//   result.stats.minimum_budget_bytes;    // one block less and MakePlan refuses
//
// *Errors*: RESOURCE_EXHAUSTED when the budget is too small, naming the step that binds, the bytes
// it needs and the smallest budget that this policy and placement can do with, or when the host
// budget is; INVALID_ARGUMENT for a peer budget where the device has no peer; NOT_FOUND for unknown
// policies and placements.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/plan.h"
#include "neap/core/plan/timeline.h"
#include "neap/core/program/program.h"
#include "neap/core/step/kernel.h"
#include "neap/memory/planner_options.h"
#include "neap/recompute/layerwise_bound.h"

namespace neap {

std::vector<std::string_view> PlacementNames();

struct PlanningStats {
  int64_t minimum_budget_bytes =
      0;  // smallest feasible for this policy, placement and in-place setting
  int64_t placement_lower_bound = 0;  // of that: its largest sum of live bytes
  LayerwiseBound layerwise;           // of activations, whatever the policy
  int64_t in_place_tensors = 0;       // results that took over an operand's bytes
  int64_t host_pool_bytes = 0;        // pinned memory that the executor reserves
  int64_t peer_pool_bytes = 0;        // likewise, of the peer
  int64_t runs = 0;                   // compute actions
  int64_t measured_runs = 0;          // of those, with a time that was measured
  double batch_copy_ms = 0;           // before the first action, and not in Plan::predicted_ms
  double engines_ms = 0;              // asking the catalog
  double planning_ms = 0;             // everything else
};

struct PlanResult {
  Plan plan;
  PlanningStats stats;
  TimelineCosts costs;            // what the plan's predicted time is made from
  std::vector<bool> is_measured;  // by compute action: whether its time in `costs` was measured
};

absl::StatusOr<PlanResult> MakePlan(const Program& program, const PlannerOptions& options,
                                    const DeviceDescription& device, EngineCatalog& catalog);

// PlanningStats::minimum_budget_bytes alone, whatever the options' budget: much quicker than a
// plan.
absl::StatusOr<int64_t> MinimumBudget(const Program& program, const PlannerOptions& options,
                                      const DeviceDescription& device, EngineCatalog& catalog);

}  // namespace neap
