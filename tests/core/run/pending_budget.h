// Sessions whose budget changes while training goes on, for the tests of SetBudgetAsync().
#pragma once

#include <cstdint>
#include <memory>

#include "neap/core/run/session.h"
#include "tests/small_training.h"

namespace neap {

// What a session of SmallNet() needs under policy auto: at least, and to move and rebuild nothing.
struct BudgetNeeds {
  int64_t least = 0, most = 0;
};
BudgetNeeds NeedsOn(Device& device);

Session SessionPlannedBy(const std::shared_ptr<const Planner>& planner, Device& device,
                         const TrainingOptions& training = {});

// Trains until the budget is no longer pending.
void TrainWhilePending(Session& session);

// The session has the bits of one whose budget has never changed.
void CheckAsSteady(Session& session, Device& device);

}  // namespace neap
