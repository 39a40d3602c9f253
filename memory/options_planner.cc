// A session's planner: it plans each request by the same options.
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "neap/core/plan/planner.h"
#include "neap/memory/planner.h"
#include "neap/memory/program_choice.h"

namespace neap {
namespace {

class OptionsPlanner final : public Planner {
 public:
  explicit OptionsPlanner(PlannerOptions options) : options_(std::move(options)) {}

  int64_t budget_bytes() const override { return options_.budget_bytes; }
  absl::StatusOr<ChosenProgram> Choose(LowerWith lower, const PlanRequest& request,
                                       const DeviceDescription& device,
                                       EngineCatalog& catalog) const override {
    return ChooseProgram(lower, OptionsFor(request), device, catalog);
  }
  absl::StatusOr<PlanResult> Plan(const Program& program, const PlanRequest& request,
                                  const DeviceDescription& device,
                                  EngineCatalog& catalog) const override {
    return MakePlan(program, OptionsFor(request), device, catalog);
  }
  absl::StatusOr<int64_t> MinimumBudget(const Program& program, const PlanRequest& request,
                                        const DeviceDescription& device,
                                        EngineCatalog& catalog) const override {
    return neap::MinimumBudget(program, OptionsFor(request), device, catalog);
  }

 private:
  PlannerOptions OptionsFor(const PlanRequest& request) const {
    PlannerOptions options = options_;
    options.budget_bytes = request.budget_bytes;
    options.strict = options_.strict || request.strict;
    return options;
  }

  const PlannerOptions options_;
};

}  // namespace

std::shared_ptr<const Planner> PlannerFor(PlannerOptions options) {
  return std::make_shared<OptionsPlanner>(std::move(options));
}

}  // namespace neap
