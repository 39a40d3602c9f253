// Executes a plan on bytes, as an executor would, to see whether every step really reads what
// the program means.
//
// It shares nothing with the verifier: it knows no liveness, no clocks and no races, only the bytes
// of an arena and of two pools, and three queues whose heads it picks at random as far as waits
// allow. Each version of each tensor is a distinct pattern of bytes. The bytes of the incoming
// batch change between any two tasks, and must then be found unchanged.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "neap/core/plan/plan.h"

namespace neap {

// What went wrong, if anything, in one random order of the streams' actions.
std::optional<std::string> Interpret(const Plan& plan, uint64_t seed);

// Sets the plan's peaks to what its actions reach, found by brute force.
void RecomputeTotals(Plan& plan);

}  // namespace neap
