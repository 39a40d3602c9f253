#include "neap/core/run/session_planner.h"

#include <algorithm>
#include <utility>

#include "neap/core/base/status_macros.h"
#include "neap/core/verifier/verifier.h"

namespace neap {

absl::StatusOr<PlanResult> SessionPlanner::Plan(const Program& program,
                                                const PlannerOptions& options) {
  const DeviceDescription& device = device_.description();
  PlannerOptions planning = options;
  planning.strict = options.strict || device.kind == "cpu";
  return cache_.FindOrMake({program, planning, device}, [&]() -> absl::StatusOr<PlanResult> {
    ASSIGN_OR_RETURN(PlanResult result, MakePlan(program, planning, device, device_.backend()));
    RETURN_IF_ERROR(Verify(result.plan));
    RETURN_IF_ERROR(MatchesProgram(result.plan, program));
    return result;
  });
}

absl::StatusOr<SessionPlans> SessionPlanner::PlanBoth(const Program& training,
                                                      const Program& inference,
                                                      const PlannerOptions& options) {
  absl::StatusOr<PlanResult> first = Plan(training, options);
  absl::StatusOr<PlanResult> second = Plan(inference, options);
  if (first.ok() && second.ok()) {
    int64_t& minimum = first->stats.minimum_budget_bytes;
    minimum = std::max(minimum, second->stats.minimum_budget_bytes);
    return SessionPlans{*std::move(first), *std::move(second)};
  }
  if (!absl::IsResourceExhausted(first.status()) || !absl::IsResourceExhausted(second.status())) {
    return first.ok() ? second.status() : first.status();
  }
  PlannerOptions unlimited = options;
  unlimited.budget_bytes = kUnlimited;
  ASSIGN_OR_RETURN(const PlanResult most, Plan(training, unlimited));
  ASSIGN_OR_RETURN(const PlanResult least, Plan(inference, unlimited));
  const bool training_binds = most.stats.minimum_budget_bytes >= least.stats.minimum_budget_bytes;
  return training_binds ? first.status() : second.status();
}

}  // namespace neap
