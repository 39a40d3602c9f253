// Bytes at each run of a sequence if everything that can be elsewhere is: what recomputation cannot
// get below, and how far a sequence is above it.
#pragma once

#include <cstdint>
#include <vector>

#include "neap/core/plan/planner.h"
#include "neap/core/program/liveness.h"
#include "neap/core/program/program.h"

namespace neap {

// Exact bytes of activations, saved tensors and gradients; bytes shared in place count once.
struct RunUsage {
  int64_t working_set = 0;  // what the run touches
  int64_t open = 0;         // gradients and saved tensors that live on untouched
  int64_t rebuilt = 0;      // other results of reruns that live on untouched
  int64_t sources = 0;      // what a rerun has read and a step will read next: else fetched twice
  int64_t sum() const { return working_set + open + rebuilt; }
};

// By position.
std::vector<RunUsage> UsagePerRun(const Program& program, const Liveness& liveness);

LayerwiseBound BoundLayerwise(const Program& program, bool in_place);

}  // namespace neap
