// A planner that has its plan from a file: what `neap plan --plan-out` or another program wrote is
// run as it is.
//
// The file holds the plan of one training program, but a session also evaluates. Programs of
// Mode::kInference are therefore planned by another planner, within the same budget, and the
// session's arena is that of the larger plan. A training program that is not the plan's is refused,
// also a part of its network (Session::SetTrainingGraph): nothing would be left of the file.
//
//   ASSIGN_OR_RETURN(std::shared_ptr<const Planner> planner,
//                    PlannerFromFile("plan.json", PlannerFor({.policy = "superneurons"})));
//   ASSIGN_OR_RETURN(Session session, Session::Create(net, *device, planner));
//
// The budget is at first that of the file, and may be any that the plan's arena fits in; the plan
// stays as it is. The engines are those of the file, also where a request is strict.
//
// The predicted time is the file's. The times of single actions are the cost model's, as the file
// does not have them, and of PlanningStats the budget, the pools, the runs and the batch's copy are
// filled in: the rest is about planning.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "neap/core/plan/planner.h"

namespace neap {

// `evaluation` plans for Mode::kInference.
// Errors: those of opening and reading the file; INVALID_ARGUMENT "PATH: ..." from Plan::FromJson()
// or Verify(). Of the planner's Plan(): INVALID_ARGUMENT naming the first thing in which the plan
// differs from the program or the device; RESOURCE_EXHAUSTED for a budget below the plan's arena.
absl::StatusOr<std::shared_ptr<const Planner>> PlannerFromFile(
    const std::string& path, std::shared_ptr<const Planner> evaluation);

}  // namespace neap
