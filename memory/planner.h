// The planner: walks a program once, step by step, against an allocator of the budget's size, and
// writes down what it does. That record is the plan.
//
// At each step it places what the step writes, picks the engine whose workspace fits the bytes that
// are left, lets the step run, and frees what has died. Tensors come first, workspaces get what
// remains, so a tight budget costs speed before it costs anything else.
//
//   ASSIGN_OR_RETURN(PlanResult result,
//                    MakePlan(program, {.budget_bytes = 12 * kGiB}, description, catalog));
//   result.plan.peak_bytes;               // <= budget, and what will be measured
//   result.stats.minimum_budget_bytes;    // one block less and MakePlan refuses
//
// *Errors*: RESOURCE_EXHAUSTED when the budget is too small, naming the step that binds, the bytes
// it needs and the smallest budget that this policy and placement can do with; NOT_FOUND for
// unknown policies and placements.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/plan.h"
#include "neap/core/program.h"
#include "neap/core/units.h"
#include "neap/layers/kernel.h"

namespace neap {

inline constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

struct PlannerOptions {
  int64_t budget_bytes = kUnlimited;
  std::string policy = "liveness";
  std::string placement = "offline";  // first-fit, exact-fit-first-fit, offline
  bool in_place = true;
  // One engine per convolution whatever the budget, so that every budget gives the same bits: the
  // first deterministic one whose workspace is at most kStrictWorkspaceBytes.
  bool strict = false;
};
inline constexpr int64_t kStrictWorkspaceBytes = 64 * kMiB;

std::vector<std::string_view> PlacementNames();

struct PlanningStats {
  int64_t minimum_budget_bytes =
      0;  // smallest feasible for this policy, placement and in-place setting
  int64_t placement_lower_bound = 0;  // largest sum of live bytes: no placement needs less
  int64_t in_place_tensors = 0;       // results that took over an operand's bytes
  double engines_ms = 0;              // asking the catalog
  double planning_ms = 0;             // everything else
};

struct PlanResult {
  Plan plan;
  PlanningStats stats;
};

absl::StatusOr<PlanResult> MakePlan(const Program& program, const PlannerOptions& options,
                                    const DeviceDescription& device, EngineCatalog& catalog);

}  // namespace neap
