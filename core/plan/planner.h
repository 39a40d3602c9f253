// The interface between what makes plans and what runs them.
//
// A session needs a plan for its program, and another one whenever its budget or its graph changes.
// A plan may come from a search for the fastest one that fits (memory/planner.h) or from a file
// that was written before (core/run/file_planner.h). The session does not know which, and does not
// trust either: it verifies every plan before it runs it.
//
//   std::shared_ptr<const Planner> planner = PlannerFor({.policy = "superneurons"});
//   ASSIGN_OR_RETURN(PlanResult result, planner->Plan(program, {.budget_bytes = 12 * kGiB},
//                                                     device.description(), device.backend()));
//   result.plan.peak_bytes;             // <= 12 GiB, and what will be measured
//   result.stats.minimum_budget_bytes;  // the smallest budget that is not refused
//
// A planner never changes: one object gives equal plans for equal arguments, until the catalog
// withdraws an engine. A cache of plans (core/run/plan_cache.h) therefore tells planners apart by
// their addresses, so that no planner has to say in what it differs from another.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/base/ids.h"
#include "neap/core/base/units.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/plan.h"
#include "neap/core/plan/timeline.h"
#include "neap/core/program/program.h"
#include "neap/core/step/kernel.h"

namespace neap {

// What no layer-wise schedule can do without, in bytes of activations, saved tensors and gradients:
// at each step its working set, and the gradients that are open there (begun, but waiting: at the
// fans and joins of the network) with the saved tensors. SuperNeurons' l_peak is the largest
// working set; paper accounting counts x, y, dy and dx there, also where dx takes dy's bytes.
struct LayerwiseBound {
  int64_t bytes = 0;   // the largest sum over steps
  StepId step;         // where
  int64_t l_peak = 0;  // the largest working set alone
};

struct PlanningStats {
  int64_t minimum_budget_bytes = 0;   // the smallest budget that the planner does not refuse
  int64_t placement_lower_bound = 0;  // of that: its largest sum of live bytes
  LayerwiseBound layerwise;           // of activations, whatever the policy
  int64_t in_place_tensors = 0;       // results that took over an operand's bytes
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

// What a planner must keep to. The session decides it, not the planner.
struct PlanRequest {
  int64_t budget_bytes = kUnlimited;
  // The same bits under every budget: engines are chosen without regard to it.
  bool strict = false;
  friend bool operator==(const PlanRequest&, const PlanRequest&) = default;
};

// *Threads*: several may use one planner at once, each with a catalog of its own.
class Planner {
 public:
  virtual ~Planner() = default;

  // What a session's budget is at first.
  virtual int64_t budget_bytes() const = 0;

  // Errors: RESOURCE_EXHAUSTED when the request's budget is too small, naming the smallest that is
  // not; those of the implementation.
  virtual absl::StatusOr<PlanResult> Plan(const Program& program, const PlanRequest& request,
                                          const DeviceDescription& device,
                                          EngineCatalog& catalog) const = 0;

  // PlanningStats::minimum_budget_bytes alone, whatever the request's budget: much quicker than a
  // plan.
  virtual absl::StatusOr<int64_t> MinimumBudget(const Program& program, const PlanRequest& request,
                                                const DeviceDescription& device,
                                                EngineCatalog& catalog) const = 0;
};

}  // namespace neap
