#include "neap/memory/known_plan.h"

#include <utility>

#include "absl/status/statusor.h"
#include "neap/core/plan/forwarding_planner.h"

namespace neap {
namespace {

class PlannerWithKnownPlan final : public ForwardingPlanner {
 public:
  PlannerWithKnownPlan(std::shared_ptr<const Planner> planner, const PlanRequest& request,
                       ChosenProgram known)
      : ForwardingPlanner(std::move(planner)), request_(request), known_(std::move(known)) {}

  absl::StatusOr<ChosenProgram> Choose(LowerWith lower, const PlanRequest& request,
                                       const DeviceDescription& device,
                                       EngineCatalog& catalog) const override {
    if (request == request_) return known_;
    return ForwardingPlanner::Choose(lower, request, device, catalog);
  }

 private:
  const PlanRequest request_;
  const ChosenProgram known_;
};

}  // namespace

std::shared_ptr<const Planner> WithKnownPlan(std::shared_ptr<const Planner> planner,
                                             const PlanRequest& request, ChosenProgram known) {
  return std::make_shared<PlannerWithKnownPlan>(std::move(planner), request, std::move(known));
}

}  // namespace neap
