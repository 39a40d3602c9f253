// A planner that reads its plan from a file: a plan written by `neap plan --plan-out` or by another
// program is run unchanged.
//
// The file holds the plan of one training program. If the session also evaluates, programs of
// Mode::kInference are planned by another planner, within the same budget, and the session's arena
// is that of the larger plan. Both plans must keep persistent tensors at the same places. A
// training program other than the plan's is refused, even a part of its network
// (Session::SetTrainingGraph), since the file has no plan for it.
//
//   ASSIGN_OR_RETURN(std::shared_ptr<const Planner> planner,
//                    PlannerFromFile("plan.json", /*evaluation=*/PlannerFor({})));
//   ASSIGN_OR_RETURN(Session session, Session::Create(net, *device, planner));
//
// The initial budget is that of the file, and every budget that holds the plan's arena is accepted;
// the plan does not change. The engines are those of the file, even if a request is strict.
//
// The predicted time is the file's. The times of single actions, which the file does not have, come
// from the cost model. Of PlanningStats, only the minimum budget, the runs and the batch's copy are
// filled in; the rest describes a planning that did not take place.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "neap/core/base/units.h"
#include "neap/core/plan/planner.h"

namespace neap {

// The memory outside the device that a plan from a file may take.
struct FilePlanLimits {
  int64_t host_budget_bytes = kUnlimited;  // of pinned memory of the host
  int64_t peer_budget_bytes = kUnlimited;  // of the peer's memory
};

// `evaluation` plans programs of Mode::kInference.
// Errors: those of opening and reading the file; INVALID_ARGUMENT "PATH: ..." from Plan::FromJson()
// or Verify(); RESOURCE_EXHAUSTED if a pool of the plan exceeds its limit. The planner's Plan()
// returns INVALID_ARGUMENT, naming the first difference between the plan and the program or the
// device, and RESOURCE_EXHAUSTED for a budget below the plan's arena.
absl::StatusOr<std::shared_ptr<const Planner>> PlannerFromFile(
    const std::string& path, std::shared_ptr<const Planner> evaluation,
    const FilePlanLimits& limits = {});

}  // namespace neap
