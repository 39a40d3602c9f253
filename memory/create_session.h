// A session that plans for itself, in one call.
//
//   ASSIGN_OR_RETURN(Session session, CreateSession(net, *device, {.budget_bytes = 12 * kGiB}));
//
// Session::Create() takes any planner (core/plan/planner.h), for a plan from a file, say. Session
// (core/) must not depend on the planner (memory/), so this is a free function.
#pragma once

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/graph/graph.h"
#include "neap/core/run/session.h"
#include "neap/memory/planner_options.h"

namespace neap {

// Session::Create() with PlannerFor(planning). Errors: those of both.
absl::StatusOr<Session> CreateSession(const Graph& graph, Device& device, PlannerOptions planning,
                                      TrainingOptions training = {});

}  // namespace neap
