// The interface between the code that makes plans and the code that runs them.
//
// A session needs a plan for its program, and another one whenever its budget or its graph changes.
// A plan may come from a search for the fastest one that fits (memory/planner.h) or from a file
// that was written before (core/run/file_planner.h). The session does not know which, and trusts
// neither: it verifies every plan before it runs it.
//
//   std::shared_ptr<const Planner> planner = PlannerFor({.policy = "auto"});
//   ASSIGN_OR_RETURN(PlanResult result, planner->Plan(program, {.budget_bytes = 12 * kGiB},
//                                                     device.description(), device.backend()));
//   result.plan.peak_bytes;             // <= 12 GiB, and what will be measured
//   result.stats.minimum_budget_bytes;  // the smallest budget that is not refused
//
// A planner is immutable: one object gives equal plans for equal arguments, until the catalog
// withdraws an engine. A cache of plans (core/run/plan_cache.h) therefore identifies planners by
// their addresses, and planners need no comparison.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "neap/core/base/ids.h"
#include "neap/core/base/units.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/plan.h"
#include "neap/core/plan/timeline.h"
#include "neap/core/program/program.h"
#include "neap/core/step/kernel.h"

namespace neap {

// A lower bound on the memory of any layer-wise schedule, in bytes of activations, saved tensors
// and gradients: at each step its working set, and the gradients that are begun but incomplete
// there (at forks and joins of the network) with the saved tensors. SuperNeurons' l_peak is the
// largest working set; paper accounting counts x, y, dy and dx in it, even if dx overwrites dy.
struct LayerwiseBound {
  int64_t bytes = 0;   // the largest sum over all steps
  StepId step;         // the step with that sum
  int64_t l_peak = 0;  // the largest working set alone
};

struct PlanningStats {
  int64_t minimum_budget_bytes = 0;   // the smallest budget for the plan's policy
  int64_t placement_lower_bound = 0;  // largest sum of live bytes in the plan for that budget
  LayerwiseBound layerwise;           // the same for every policy
  // No plan of this program in the budget is predicted to take less time, whatever it keeps, moves
  // and rebuilds; 0 if unknown.
  double time_bound_ms = 0;
  int64_t in_place_tensors = 0;  // results that overwrite an operand
  int64_t runs = 0;              // compute actions
  // Compute actions the time of which was measured, or interpolated between measured ones.
  int64_t measured_runs = 0;
  int64_t interpolated_runs = 0;
  double batch_copy_ms = 0;  // BatchCopySeconds(); not in Plan::predicted_ms
  // Time spent querying the catalog, and on everything else; with that of the other programs that
  // were tried to choose this one.
  double engines_ms = 0;
  double planning_ms = 0;
};

struct PlanResult {
  Plan plan;
  PlanningStats stats;
  TimelineCosts costs;              // the costs from which the plan's time was predicted
  std::vector<TimeSource> sources;  // by compute action: how its time in `costs` is known
};

// A planner may start so many threads, which end before it returns. Its results do not depend on
// their number.
inline constexpr size_t kMaxPlanningThreads = 8;

// The constraints of a plan. The session decides them, not the planner.
struct PlanRequest {
  int64_t budget_bytes = kUnlimited;
  // The results are the same bits under every budget: engines are chosen regardless of the budget.
  bool strict = false;
  friend bool operator==(const PlanRequest&, const PlanRequest&) = default;
};

// The sizes of buckets from which planners choose, the usual one first: options of the same names
// in ProgramOptions. Small ones can be summed earlier, large ones wait for fewer latencies, and
// those that end with a small one run beneath the last steps of backward, which are long ones.
struct BucketSizes {
  int64_t bucket_bytes = kBucketBytes;
  int64_t last_bucket_bytes = 0;
  friend bool operator==(const BucketSizes&, const BucketSizes&) = default;
};
inline constexpr BucketSizes kBucketChoices[] = {
    {},
    {kMiB},
    {5 * kMiB},
    {10 * kMiB},
    {100 * kMiB},
    {kUnlimited, kMiB},
    {kUnlimited, 5 * kMiB},
    {kUnlimited, 25 * kMiB},
};

// The options of a program that its planner chooses; they have the same names in ProgramOptions.
struct ProgramChoice {
  int64_t sub_batches = 1;
  bool batch_norm_in_parts = false;  // a planner does not choose it by itself
  bool offload_params = false;
  BucketSizes buckets = {};  // the same on all ranks
  int buckets_in_flight = 0;
  friend bool operator==(const ProgramChoice&, const ProgramChoice&) = default;
};

struct ChosenProgram {
  ProgramChoice choice = {};
  std::optional<PlanResult> plan = {};  // of its program, if that was planned to choose
};

// The program of one network with a choice.
using LowerWith = absl::FunctionRef<absl::StatusOr<Program>(const ProgramChoice& choice)>;

// *Threads*: several may use one planner and one catalog at the same time.
class Planner {
 public:
  virtual ~Planner() = default;

  // The initial budget of a session.
  virtual int64_t budget_bytes() const = 0;

  // The choice for programs that this planner is to plan, and the result of Plan() for the request
  // if it was made. `lower` makes the program with a choice, or refuses it.
  virtual absl::StatusOr<ChosenProgram> Choose(LowerWith lower, const PlanRequest& request,
                                               const DeviceDescription& device,
                                               EngineCatalog& catalog) const = 0;

  // Errors: RESOURCE_EXHAUSTED when the request's budget is too small, naming the smallest feasible
  // one; those of the implementation.
  virtual absl::StatusOr<PlanResult> Plan(const Program& program, const PlanRequest& request,
                                          const DeviceDescription& device,
                                          EngineCatalog& catalog) const = 0;

  // PlanningStats::minimum_budget_bytes alone, regardless of the request's budget; much faster than
  // planning.
  virtual absl::StatusOr<int64_t> MinimumBudget(const Program& program, const PlanRequest& request,
                                                const DeviceDescription& device,
                                                EngineCatalog& catalog) const = 0;
};

}  // namespace neap
