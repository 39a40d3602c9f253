// A planner that forwards all calls to another one: the base of planners that differ from it in
// one.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "neap/core/plan/planner.h"

namespace neap {

class ForwardingPlanner : public Planner {
 public:
  explicit ForwardingPlanner(std::shared_ptr<const Planner> planner)
      : planner_(std::move(planner)) {}

  int64_t budget_bytes() const override { return planner_->budget_bytes(); }
  absl::StatusOr<ChosenProgram> Choose(LowerWith lower, const PlanRequest& request,
                                       const DeviceDescription& device,
                                       EngineCatalog& catalog) const override {
    return planner_->Choose(lower, request, device, catalog);
  }
  absl::StatusOr<PlanResult> Plan(const Program& program, const PlanRequest& request,
                                  const DeviceDescription& device,
                                  EngineCatalog& catalog) const override {
    return planner_->Plan(program, request, device, catalog);
  }
  absl::StatusOr<int64_t> MinimumBudget(const Program& program, const PlanRequest& request,
                                        const DeviceDescription& device,
                                        EngineCatalog& catalog) const override {
    return planner_->MinimumBudget(program, request, device, catalog);
  }

 private:
  const std::shared_ptr<const Planner> planner_;
};

}  // namespace neap
