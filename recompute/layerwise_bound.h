// Lower bound on live bytes at each run, assuming that everything that can be offloaded or dropped
// is; and how far a given sequence exceeds it.
#pragma once

#include <cstdint>
#include <vector>

#include "neap/core/plan/planner.h"
#include "neap/core/program/liveness.h"
#include "neap/core/program/program.h"

namespace neap {

// Exact bytes of activations, saved tensors and gradients; bytes shared in place count once.
struct RunUsage {
  int64_t working_set = 0;  // the run's operands
  int64_t open = 0;         // gradients and saved tensors that are alive but not operands
  int64_t rebuilt = 0;      // other results of reruns that are alive but not operands
  int64_t sources = 0;      // read by a rerun before and by a step next: evicted, fetched twice
  int64_t sum() const { return working_set + open + rebuilt; }
};

// By position.
std::vector<RunUsage> UsagePerRun(const Program& program, const Liveness& liveness);

LayerwiseBound BoundLayerwise(const Program& program, bool in_place);

}  // namespace neap
