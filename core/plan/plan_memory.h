// The memory use of a plan, computed from its actions: bytes in use at each step, and bytes moved.
//
// Actions state only changes, so allocations, frees and copies are replayed in issue order. A
// region that is shared in place counts once. A copy on the host or on a peer counts from its
// offload to the last prefetch that reads it.
//
//   live bytes |        +----+          compute 1: a, b and its workspace
//              |   +----+ ws |--+       compute 2: b alone
//              |  a|  a + b  |b |
//              +---0----1-----2---> compute actions
//
//   for (const StepMemory& memory : MemoryPerStep(plan)) most = std::max(most, memory.live_bytes);
//   TotalMovement(plan).offloaded_bytes;
//
// The plan need not have passed the verifier, but its ids must be positions, and sums of its sizes
// must not overflow; Plan::FromJson() checks both. *Complexity*: O(actions).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "neap/core/plan/plan.h"

namespace neap {

// Memory while one step runs: after its tensors and workspace are placed, before anything is freed.
struct StepMemory {
  StepId step;
  bool recompute = false;
  StepId serves;                      // the next step in order, for which a recomputation runs
  int64_t live_bytes = 0;             // in use: whole blocks, with workspace and incoming batch
  int64_t live_activation_bytes = 0;  // exact bytes of activations, saved tensors and gradients
  int live_activations = 0;           // their number
  int64_t workspace_bytes = 0;
  int64_t free_bytes = 0;  // budget - live
  int64_t host_bytes = 0;  // of copies on the host, in whole blocks
  int64_t peer_bytes = 0;  // of copies on the peer, in whole blocks
  // By Role: live bytes without the workspace. Bytes shared in place count for the tensor that was
  // allocated there first, and those of the incoming batch as input.
  std::array<int64_t, kRoleCount> role_bytes = {};
  std::string engine;  // empty if there is no choice; "3 x 64 eng3 + 32 eng7" for micro-batches
};

// One entry per compute action.
std::vector<StepMemory> MemoryPerStep(const Plan& plan);

// The entry with the largest sum of live activations, the first of equals; nullopt if there are no
// entries.
std::optional<StepMemory> ActivationPeak(const std::vector<StepMemory>& memory);

// The work of an iteration in addition to its steps.
struct Movement {
  int64_t extra_forwards = 0;         // forward steps that are run again
  int64_t offloaded_bytes = 0;        // copied to the host or to the peer
  int64_t prefetched_bytes = 0;       // copied back
  int64_t peer_offloaded_bytes = 0;   // the part of `offloaded_bytes` that goes to the peer
  int64_t peer_prefetched_bytes = 0;  // the part of `prefetched_bytes` that comes from there
};
Movement TotalMovement(const Plan& plan);

}  // namespace neap
