#include "neap/core/run/session_planner.h"

#include <algorithm>

#include "neap/core/base/status_macros.h"
#include "neap/core/verifier/verifier.h"

namespace neap {

PlanRequest SessionPlanner::RequestFor(int64_t budget_bytes) const {
  return {.budget_bytes = budget_bytes, .strict = device_.description().kind == "cpu"};
}

absl::StatusOr<int64_t> SessionPlanner::MinimumBudget(const Program& program) const {
  return planner_->MinimumBudget(program, RequestFor(kUnlimited), device_.description(),
                                 device_.backend());
}

absl::StatusOr<PlanResult> SessionPlanner::Plan(const Program& program, int64_t budget_bytes) {
  const DeviceDescription& device = device_.description();
  const PlanRequest request = RequestFor(budget_bytes);
  const auto make = [&]() -> absl::StatusOr<PlanResult> {
    ASSIGN_OR_RETURN(PlanResult result,
                     planner_->Plan(program, request, device, device_.backend()));
    RETURN_IF_ERROR(Verify(result.plan));
    RETURN_IF_ERROR(MatchesProgram(result.plan, program));
    return result;
  };
  return cache_.FindOrMake({program, planner_, request, device}, make);
}

absl::StatusOr<SessionPlans> SessionPlanner::PlanBoth(const Program& training,
                                                      const Program& inference,
                                                      int64_t budget_bytes) {
  absl::StatusOr<PlanResult> first = Plan(training, budget_bytes);
  absl::StatusOr<PlanResult> second = Plan(inference, budget_bytes);
  if (first.ok() && second.ok()) {
    int64_t& minimum = first->stats.minimum_budget_bytes;
    minimum = std::max(minimum, second->stats.minimum_budget_bytes);
    return SessionPlans{*std::move(first), *std::move(second)};
  }
  if (!absl::IsResourceExhausted(first.status()) || !absl::IsResourceExhausted(second.status())) {
    return first.ok() ? second.status() : first.status();
  }
  ASSIGN_OR_RETURN(const int64_t of_training, MinimumBudget(training));
  ASSIGN_OR_RETURN(const int64_t of_inference, MinimumBudget(inference));
  return of_training >= of_inference ? first.status() : second.status();
}

}  // namespace neap
