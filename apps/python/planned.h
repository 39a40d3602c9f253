// A plan with what is known of it: neap.Plan in Python.
#pragma once

#include "absl/status/statusor.h"
#include "apps/cli/device_flag.h"
#include "apps/cli/planning_flags.h"
#include "apps/python/planning_arguments.h"
#include "neap/core/graph/graph.h"
#include "neap/core/plan/plan.h"
#include "neap/core/plan/planner.h"
#include "neap/core/plan/timeline.h"

namespace neap::python {

struct Planned {
  neap::Plan plan;
  PlanningStats stats = {};
  Timeline timeline = {};  // as predicted
  bool has_budget = false;
};

// The facts about the device of the arguments that planning this network needs. Errors: those of
// apps::OpenPlanTargetBy() and CheckPythonLayers().
absl::StatusOr<apps::PlanTarget> TargetFor(const Graph& net, const apps::PlanningFlags& flags);

// How a network with this optimizer is lowered.
ProgramOptions LoweringOf(const ProgramChoice& choice, const Optimizer& optimizer,
                          int64_t accumulate = 1);

// The bytes of the flags' budget, unlimited without one. Errors: those of Lower() and of planning,
// which a budget in percent needs. `options` have no budget.
absl::StatusOr<int64_t> BudgetFor(const Graph& net, const apps::PlanningFlags& flags,
                                  const Optimizer& optimizer, const PlannerOptions& options,
                                  const DeviceDescription& device, EngineCatalog& engines,
                                  int64_t accumulate = 1);

// The verified plan that `neap plan` would make. Errors: those of `neap plan`.
absl::StatusOr<Planned> PlanFor(const Graph& net, const PlanningArguments& arguments);

}  // namespace neap::python
