// The planner: decides where every tensor is at every run of an iteration, and writes that as a
// plan.
//
//   recomputation   the order of runs             recompute/recompute.h
//   residency       what is kept, moved, dropped  memory/transfer/residency.h, overlap.h
//   placement       at which address              memory/placement/placement_method.h
//   engines         with which workspace          memory/engines/engine_table.h, gain_rule.h
//   pools           host or peer                  memory/transfer/pool_choice.h
//   waits           between the streams           memory/transfer/waits.h
//   incoming batch  copied during an iteration?   Planning::Fastest(), in planner.cc
//
// Tensors are planned first. Workspaces get the remaining memory, or more if that gains more time
// than offloading a tensor costs; so a tight budget costs speed before anything else. Residency
// counts bytes, while placement may leave gaps; so several memory limits are tried and the fastest
// plan that fits is chosen (memory/search/plan_search.h).
//
//   ASSIGN_OR_RETURN(PlanResult result,
//                    MakePlan(program, {.budget_bytes = 12 * kGiB}, description, catalog));
//   result.plan.peak_bytes;               // <= budget, and equal to the measured peak
//   result.stats.minimum_budget_bytes;    // with one block less, MakePlan() fails
//
// A session takes a Planner (core/plan/planner.h), which PlannerFor() makes from the same options.
//
// *Errors*: RESOURCE_EXHAUSTED if the budget is too small, naming the step that needs the most
// memory, its bytes, and the minimum budget of this policy and placement; RESOURCE_EXHAUSTED also
// if the host budget is too small. Both name policy auto if the same options can be planned with
// it; where the host may have too little memory for that, finding it out takes as long as planning.
// INVALID_ARGUMENT for a peer budget if the device has no peer, and for a policy that always moves
// tensors, or parameters that are to be on the host, if there is no room outside the arena
// (PlannerOptions::has_room_outside()); NOT_FOUND for an unknown policy.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/planner.h"
#include "neap/core/program/program.h"
#include "neap/core/step/kernel.h"
#include "neap/memory/planner_options.h"

namespace neap {

struct Policy;  // memory/policies/policy.h

// False for a policy that always moves tensors if the options leave no room outside the arena.
bool HasRoomFor(const Policy& policy, const PlannerOptions& options);

// A planner with these options: Plan() calls MakePlan(), and MinimumBudget() the function below.
// The options' budget is a session's initial one. It plans strictly if the options or the request
// are strict.
std::shared_ptr<const Planner> PlannerFor(PlannerOptions options);

absl::StatusOr<PlanResult> MakePlan(const Program& program, const PlannerOptions& options,
                                    const DeviceDescription& device, EngineCatalog& catalog);

// The plan of MakePlan() if an iteration with it, and with the batch's copy, takes less than
// `limit_ms`. Otherwise, or if the likely candidates take longer, maybe none, which takes less
// planning: to compare programs. If the budget is too small, that is the attempt's `refusal`, not
// an error.
struct PlanAttempt {
  std::optional<PlanResult> plan;
  absl::Status refusal;   // of MakePlan(), if it is RESOURCE_EXHAUSTED
  double kernels_ms = 0;  // of the fastest engines alone: no plan takes less, in any budget
  double engines_ms = 0;  // PlanningStats::engines_ms, also of a plan that is not there
};
absl::StatusOr<PlanAttempt> AttemptPlan(double limit_ms, const Program& program,
                                        const PlannerOptions& options,
                                        const DeviceDescription& device, EngineCatalog& catalog);

// Only PlanningStats::minimum_budget_bytes of a plan in a budget, whatever the options' budget; so
// without a policy's name, that of auto. Much faster than a plan.
absl::StatusOr<int64_t> MinimumBudget(const Program& program, const PlannerOptions& options,
                                      const DeviceDescription& device, EngineCatalog& catalog);

// Whether MinimumBudget() is at most the options' budget, which takes less planning than to find
// it.
absl::StatusOr<bool> FitsBudget(const Program& program, const PlannerOptions& options,
                                const DeviceDescription& device, EngineCatalog& catalog);

// FitsBudget(), with what else is then known of the smallest plan.
struct BudgetFit {
  bool fits = false;
  // A lower bound on the bytes of the smallest plan if that does not fit, and about as many as it
  // needs if it does.
  int64_t bound_bytes = 0;
  // A plan is in any case within the host budget. Otherwise only planning tells.
  bool fits_host = false;
};
absl::StatusOr<BudgetFit> FitInBudget(const Program& program, const PlannerOptions& options,
                                      const DeviceDescription& device, EngineCatalog& catalog);

}  // namespace neap
