#include "tests/core/run/pending_budget.h"

#include <doctest/doctest.h>

#include <utility>

namespace neap {

BudgetNeeds NeedsOn(Device& device) {
  const Session session = MakeSession(device, {.policy = "auto"});
  return {session.planning().minimum_budget_bytes, session.memory().arena_bytes};
}

Session SessionPlannedBy(const std::shared_ptr<const Planner>& planner, Device& device,
                         const TrainingOptions& training) {
  absl::StatusOr<Session> session = Session::Create(SmallNet(), device, planner, training);
  REQUIRE_MESSAGE(session.ok(), session.status().ToString());
  return *std::move(session);
}

void TrainWhilePending(Session& session) {
  while (session.budget_pending()) Train(session, 1);
}

void CheckAsSteady(Session& session, Device& device) {
  Session steady = MakeSession(device, {});
  CHECK(Train(steady, static_cast<int>(session.step())) > 0);
  CheckSameState(steady, session);
}

}  // namespace neap
