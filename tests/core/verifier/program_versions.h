// The versions of tensors that a plan's program reads and writes: a tensor has version 0 at first,
// and one more after each step that writes it or adds to it.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "neap/core/plan/plan.h"

namespace neap {

// The versions of tensors that a step reads and writes.
struct StepVersions {
  std::vector<std::pair<TensorId, int>> reads, rerun_reads, writes, accumulates;
};

// The versions of all steps, and each tensor's version at the end.
struct ProgramVersions {
  std::vector<StepVersions> steps;
  std::map<TensorId, int> last;
};
ProgramVersions RunProgram(const Plan& plan);

}  // namespace neap
