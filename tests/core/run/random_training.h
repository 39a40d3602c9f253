// Trains random networks (tests/random_graph.h) for a few steps, to compare plans by their results.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "neap/core/run/session.h"
#include "neap/memory/planner_options.h"

namespace neap::testing {

// Sums without normalisation grow: slow enough for losses to stay finite.
inline constexpr TrainingOptions kRandomTraining = {.learning_rate = {.base = 1e-3F}};

using TrainedState = std::map<std::string, std::vector<float>>;  // by name

// Losses, outputs and every persistent tensor after some steps.
TrainedState TrainRandom(const Graph& graph, Device& device, const PlannerOptions& options,
                         int64_t* minimum_budget, int steps = 3,
                         const TrainingOptions& training = kRandomTraining);

bool SameBits(const TrainedState& a, const TrainedState& b);

// Trains under several policies without a budget, and under each one's minimum, and checks that the
// state is `want`.
void CheckPlans(const Graph& graph, Device& device, const TrainedState& want);

}  // namespace neap::testing
