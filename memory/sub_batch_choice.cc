#include "neap/memory/sub_batch_choice.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/plan/plan_memory.h"
#include "neap/memory/planner.h"
#include "neap/memory/policies/policies.h"

namespace neap {
namespace {

bool MovesOrRebuilds(const Plan& plan) {
  const Movement total = TotalMovement(plan);
  return total.extra_forwards > 0 || total.offloaded_bytes > 0 || total.prefetched_bytes > 0;
}

// Tries 1, 2, 4, ... parts.
class Choice {
 public:
  Choice(LowerWith lower, const PlannerOptions& options, const DeviceDescription& device,
         EngineCatalog& catalog)
      : lower_(lower), options_(options), device_(device), catalog_(catalog) {}

  absl::StatusOr<int64_t> Make() {
    // Planning takes longer than finding out that there is no choice.
    absl::StatusOr<Program> split = lower_(2);
    ASSIGN_OR_RETURN(const Program whole, lower_(1));
    if (absl::IsInvalidArgument(split.status())) return 1;
    ASSIGN_OR_RETURN(bool may_gain, Try(whole, 1));
    for (int64_t count = 2; may_gain; count *= 2) {
      RETURN_IF_ERROR(split.status());
      if (split->steps.size() > kMostStepsInSubBatches) break;
      ASSIGN_OR_RETURN(may_gain, Try(*split, count));
      if (whole.net.batch % (2 * count) != 0) break;
      split = lower_(2 * count);
    }
    return best_.has_value() ? chosen_ : smallest_;
  }

 private:
  // Whether more parts may be faster.
  absl::StatusOr<bool> Try(const Program& program, int64_t count) {
    const absl::StatusOr<PlanResult> result = MakePlan(program, options_, device_, catalog_);
    if (absl::IsResourceExhausted(result.status())) {
      RETURN_IF_ERROR(NoteMinimum(program, count));
      return true;
    }
    // Kernels have no indices for so many images.
    if (absl::IsUnimplemented(result.status())) return true;
    RETURN_IF_ERROR(result.status());
    if (best_.has_value() && !IsFaster(*result)) return false;
    const bool may_gain = MovesOrRebuilds(result->plan);
    best_ = PlanTime{IterationMs(*result), IsMeasured(*result)};
    chosen_ = count;
    return may_gain;
  }

  absl::Status NoteMinimum(const Program& program, int64_t count) {
    ASSIGN_OR_RETURN(const int64_t bytes, MinimumBudget(program, options_, device_, catalog_));
    if (least_bytes_.has_value() && bytes >= *least_bytes_) return absl::OkStatus();
    least_bytes_ = bytes;
    smallest_ = count;
    return absl::OkStatus();
  }

  // Predictions without measurements are too low to be compared with measured times.
  bool IsFaster(const PlanResult& result) const {
    return IterationMs(result) < best_->ms && (IsMeasured(result) || !best_->is_measured);
  }
  static double IterationMs(const PlanResult& result) {
    return result.plan.predicted_ms + result.stats.batch_copy_ms;
  }
  static bool IsMeasured(const PlanResult& result) {
    return result.stats.measured_runs == result.stats.runs;
  }

  struct PlanTime {
    double ms = 0;
    bool is_measured = false;
  };

  LowerWith lower_;
  const PlannerOptions& options_;
  const DeviceDescription& device_;
  EngineCatalog& catalog_;
  std::optional<PlanTime> best_;
  std::optional<int64_t> least_bytes_;  // of the plans that do not fit
  int64_t chosen_ = 1;                  // of the best plan
  int64_t smallest_ = 1;                // of the plan with the least bytes
};

}  // namespace

absl::StatusOr<bool> MayChooseSubBatches(const PlannerOptions& options,
                                         const DeviceDescription& device) {
  const bool has_budget = options.budget_bytes != kUnlimited;
  if (options.sub_batches.has_value() || !has_budget || options.strict || device.kind == "cpu")
    return false;
  const std::string name =
      options.policy.empty() ? std::string(DefaultPolicy(has_budget)) : options.policy;
  ASSIGN_OR_RETURN(const Policy policy, FindPolicy(name));
  return policy.may_split_batch;
}

absl::StatusOr<int64_t> ChooseSubBatches(LowerWith lower, const PlannerOptions& options,
                                         const DeviceDescription& device, EngineCatalog& catalog) {
  ASSIGN_OR_RETURN(const bool may_choose, MayChooseSubBatches(options, device));
  if (!may_choose) return options.sub_batches.value_or(1);
  return Choice(lower, options, device, catalog).Make();
}

}  // namespace neap
