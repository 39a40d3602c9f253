#include "neap/memory/create_session.h"

#include <utility>

#include "neap/memory/planner.h"

namespace neap {

absl::StatusOr<Session> CreateSession(const Graph& graph, Device& device, PlannerOptions planning,
                                      TrainingOptions training) {
  return Session::Create(graph, device, PlannerFor(std::move(planning)), training);
}

}  // namespace neap
