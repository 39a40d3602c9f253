// The planner's walk: one pass over the runs against an allocator, recorded as actions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/plan/plan.h"
#include "neap/core/program/program.h"
#include "neap/memory/engines/engine_table.h"
#include "neap/memory/placement/allocator.h"
#include "neap/memory/transfer/residency.h"

namespace neap {

// The allocation id of a run's workspace, by position. Stays use their index; one that takes over
// another's bytes, that one's.
constexpr AllocationId WorkspaceId(int position) { return -1 - AllocationId{position}; }

// Stays that share bytes in place, one after another.
struct Buffers {
  std::vector<size_t> first;      // by stay: the first of its chain
  std::vector<bool> is_replaced;  // by stay: another takes over its bytes
  std::vector<int> end;           // by stay that is first: when the bytes are free
};
Buffers FindBuffers(const Residency& residency);

struct WalkResult {
  std::vector<Action> actions;          // without waits
  std::vector<double> compute_seconds;  // by compute action
  std::vector<bool> is_measured;        // likewise: the seconds are
  int64_t peak_bytes = 0;               // highest end
  StepId busiest_step;                  // where the sum of live bytes is largest
  int64_t busiest_bytes = 0;
};

// Persistent tensors lie at the bottom of the arena, in the order of their ids, so that every plan
// of a network has them in the same place; the allocator hands out what is above.
// Those that travel (by TensorId; empty: none) have no place there.
int64_t PersistentBytes(const Program& program, const std::vector<bool>& travels);

// Each run takes the first in order of preference of the configurations that fit its bytes of
// `workspaces`, by position; empty: the largest hole. Errors: those of the allocator.
absl::StatusOr<WalkResult> WalkRuns(const Program& program, const ComputeSequence& runs,
                                    const Residency& residency, const EngineTable& engines,
                                    const std::vector<int64_t>& workspaces, Allocator& allocator);

}  // namespace neap
