#include "neap/core/session_plans.h"

#include <algorithm>
#include <utility>

#include "neap/core/status_macros.h"
#include "neap/core/verifier.h"

namespace neap {

absl::StatusOr<PlanResult> SessionPlanner::Plan(const Program& program,
                                                const SessionOptions& options) {
  const PlannerOptions planner = {.budget_bytes = options.budget_bytes,
                                  .host_budget_bytes = options.host_budget_bytes,
                                  .policy = options.policy,
                                  .placement = options.placement,
                                  .offload_params = options.offload_params,
                                  .eviction = options.eviction,
                                  .in_place = options.in_place,
                                  .strict = options.strict || device_.description().kind == "cpu"};
  return cache_.FindOrMake(
      {program, planner, device_.description()}, [&]() -> absl::StatusOr<PlanResult> {
        ASSIGN_OR_RETURN(PlanResult result,
                         MakePlan(program, planner, device_.description(), device_.backend()));
        RETURN_IF_ERROR(Verify(result.plan));
        RETURN_IF_ERROR(MatchesProgram(result.plan, program));
        return result;
      });
}

absl::StatusOr<SessionPlans> SessionPlanner::PlanBoth(const Program& training,
                                                      const Program& inference,
                                                      const SessionOptions& options) {
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
  SessionOptions unlimited = options;
  unlimited.budget_bytes = kUnlimited;
  ASSIGN_OR_RETURN(const PlanResult most, Plan(training, unlimited));
  ASSIGN_OR_RETURN(const PlanResult least, Plan(inference, unlimited));
  const bool training_binds = most.stats.minimum_budget_bytes >= least.stats.minimum_budget_bytes;
  return training_binds ? first.status() : second.status();
}

}  // namespace neap
