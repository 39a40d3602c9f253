// The planner's walk: one pass over the steps against an allocator, recorded as actions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/lifetimes.h"
#include "neap/core/plan.h"
#include "neap/core/program.h"
#include "neap/layers/kernel.h"
#include "neap/memory/allocator.h"
#include "neap/memory/in_place.h"
#include "neap/memory/policy.h"

namespace neap {

// When every tensor is in memory and whose bytes it uses. Persistent tensors lie at the bottom of
// the arena, in the order of their ids, so that every plan of a network has them in the same place.
struct Schedule {
  std::vector<Lifetime> residency;  // by TensorId
  Replacements replaces;
  std::vector<Lifetime>
      buffers;  // by TensorId of the first tensor in a chain of in-place results: the whole chain
  std::vector<TensorId> buffer_of;  // by TensorId: the first tensor of its chain
  std::vector<bool> overwritten;    // by TensorId: another tensor takes over its bytes
  int64_t persistent_bytes = 0;
};
Schedule MakeSchedule(const Program& program, const Policy& policy, bool in_place);

// The engines that may run a step, in order of preference, and the scratch space that the step
// needs besides.
struct StepEngines {
  std::vector<Engine> engines;  // empty: the step has no kernel (paper accounting)
  int64_t scratch_bytes = 0;
  bool only_one = false;  // the library offers no choice
};
// Leaves the one engine that strict mode uses.
void KeepStrictEngine(std::vector<Engine>& engines);
// The least workspace with which the step can run.
int64_t SmallestWorkspace(const StepEngines& engines);

// The allocation id of a step's workspace; tensors use their own ids.
constexpr AllocationId WorkspaceId(StepId step) { return -1 - AllocationId{step.value}; }

enum class WorkspaceChoice : uint8_t {
  kSmallest,       // the engine that needs the least
  kFirstThatFits,  // the first in order of preference whose workspace fits the largest hole
};

struct WalkResult {
  std::vector<Action> actions;
  int64_t peak_bytes = 0;  // highest end
  StepId busiest_step;     // where the sum of live bytes is largest
  int64_t busiest_bytes = 0;
};

// Errors: those of the allocator.
absl::StatusOr<WalkResult> WalkProgram(const Program& program, const Schedule& schedule,
                                       const std::vector<StepEngines>& engines,
                                       WorkspaceChoice choice, Allocator& allocator);

// A plan's description of the program, without actions and sizes.
Plan DescribeProgram(const Program& program, const DeviceDescription& device);

}  // namespace neap
