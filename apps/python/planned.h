// A plan with what is known of it: neap.Plan in Python.
#pragma once

#include "absl/status/statusor.h"
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

// The verified plan that `neap plan` would make. Errors: those of `neap plan`.
absl::StatusOr<Planned> PlanFor(const Graph& net, const PlanningArguments& arguments);

}  // namespace neap::python
