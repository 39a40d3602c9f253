// The engines that may run each step, and which of them a plan takes.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/lifetimes.h"
#include "neap/core/program.h"
#include "neap/core/units.h"
#include "neap/layers/kernel.h"

namespace neap {

// Of the engines that strict mode may take.
inline constexpr int64_t kStrictWorkspaceBytes = 64 * kMiB;

// In order of preference, with the scratch space that the step needs besides.
struct StepEngines {
  std::vector<Engine> engines;  // empty: the step has no kernel (paper accounting)
  int64_t scratch_bytes = 0;
  bool only_one = false;  // the library offers no choice
};

// Where the bytes left decide: the first in order of preference that fits. A step that runs twice
// has one engine, as in strict mode: the same engine makes the same bits, and must fit both times.
class EngineTable {
 public:
  // Deterministic engines only; in strict mode the one that strict mode uses. Errors: those of the
  // catalog, naming the step; FAILED_PRECONDITION where no engine is deterministic.
  static absl::StatusOr<EngineTable> List(const Program& program, bool strict,
                                          EngineCatalog& catalog);
  // Lists those of the reruns in `runs`.
  absl::Status AddReruns(const Program& program, const ComputeSequence& runs,
                         EngineCatalog& catalog);

  const StepEngines& Of(const Run& run) const {
    return run.recompute ? again_[run.step.index()] : first_[run.step.index()];
  }
  // Scratch and engine; null where there is none.
  const Engine* Smallest(const Run& run) const;
  const Engine* FirstThatFits(const Run& run, int64_t free_bytes) const;
  // The least workspace with which the run can be done.
  int64_t SmallestWorkspace(const Run& run) const;

 private:
  std::vector<StepEngines> first_;  // by StepId
  std::vector<StepEngines> again_;  // by StepId: of reruns
  std::vector<bool> runs_again_;    // by StepId
  bool strict_ = false;
};

}  // namespace neap
