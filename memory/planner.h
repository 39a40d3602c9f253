// The planner: decides what is where at every run of an iteration, and writes it down as a plan.
//
//   recomputation   the order of runs             recompute/recompute.h
//   residency       who stays, leaves, returns    memory/transfer/residency.h, overlap.h
//   placement       at which address              memory/placement/placement.h, heap.h
//   engines         with which workspace          memory/engines/engine_table.h, gain_rule.h
//   pools           host or peer                  memory/transfer/pool_choice.h
//   waits           who waits for whom            memory/transfer/waits.h
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
// A session takes a Planner (core/plan/planner.h), which PlannerFor() makes of the same options.
//
// *Errors*: RESOURCE_EXHAUSTED when the budget is too small, naming the step that binds, the bytes
// it needs, the smallest budget that this policy and placement can do with, and policy superneurons
// where the budget is enough for that, or when the host budget is; INVALID_ARGUMENT for a peer
// budget where the device has no peer; NOT_FOUND for unknown policies and placements.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/planner.h"
#include "neap/core/program/program.h"
#include "neap/core/step/kernel.h"
#include "neap/memory/planner_options.h"

namespace neap {

std::vector<std::string_view> PlacementNames();

// The planner with these options, whose budget is a session's first and is strict where either the
// options or the request are: Plan() is MakePlan(), and MinimumBudget() that below.
std::shared_ptr<const Planner> PlannerFor(PlannerOptions options);

absl::StatusOr<PlanResult> MakePlan(const Program& program, const PlannerOptions& options,
                                    const DeviceDescription& device, EngineCatalog& catalog);

// PlanningStats::minimum_budget_bytes alone, whatever the options' budget: much quicker than a
// plan.
absl::StatusOr<int64_t> MinimumBudget(const Program& program, const PlannerOptions& options,
                                      const DeviceDescription& device, EngineCatalog& catalog);

}  // namespace neap
