// A planner that has already chosen once: for a session whose plan was made before it, to find out
// which kernels to measure (memory/measuring/measure_kernels.h).
//
//   planner = WithKnownPlan(planner, request, chosen);
#pragma once

#include <memory>

#include "neap/core/plan/planner.h"

namespace neap {

// Choose() returns `known` for an equal request. Everything else is the planner's. `known` is a
// result of Choose() of a planner by the same options, which may know fewer times; the caller's
// programs must be those that it was chosen for.
std::shared_ptr<const Planner> WithKnownPlan(std::shared_ptr<const Planner> planner,
                                             const PlanRequest& request, ChosenProgram known);

}  // namespace neap
