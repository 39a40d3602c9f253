// Places the copies outside the arena, in a pool of pinned host memory and in one of a peer GPU's
// memory (SuperNeurons 3.3, the unified tensor pool).
//
// A copy occupies its bytes from its offload to the last prefetch that reads it; then another copy
// may reuse them. The d2h stream must then wait until the h2d stream has read the bytes that it
// overwrites; memory/transfer/waits.h inserts that wait.
//
//   ^ bytes of the pool
//   |            [== c ====)
//   |  [== a ========)  [== b ====)       b reuses the bytes of a: its offload waits for the
//   +--------------------------------->   prefetch of a
//                        transfers
//
//   plan.actions = actions;    // without waits; every offload names its pool
//   LayOutPools(plan);         // sets every offload's offset and the sizes of the pools
//   plan.actions = WithWaits(plan);
//
// The layout depends only on the order of the transfers. Tensors that are on the host between
// iterations occupy the first bytes of the host's pool (core/plan/describe_program.h).
// *Complexity*: O(copies x log(copies)), plus that of placement (memory/placement/placement.h).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "neap/core/plan/plan.h"

namespace neap {

// A copy of a tensor that is not on the host between iterations. Times count the transfers of all
// pools. A copy lives from its offload to one past its last prefetch; without a prefetch, to the
// next offload of the tensor or to the end.
struct ExternalCopy {
  TensorId tensor;
  Pool pool = Pool::kHost;
  int64_t bytes = 0;   // whole blocks
  int64_t action = 0;  // the offload's index in the plan
  int begin = 0;
  int end = 0;
  int reads = 0;  // prefetches
};
std::vector<ExternalCopy> FindCopies(const Plan& plan);  // in order of `action`

struct PoolLayout {
  std::vector<int64_t> offsets;  // by index into the copies
  int64_t bytes = 0;
};
// Lays out copies that share a pool.
PoolLayout LayOutCopies(const std::vector<ExternalCopy>& copies);

// Sets the offsets of the plan's offloads and the bytes of its pools.
void LayOutPools(Plan& plan);

// Does the same, but gives each copy its own bytes, as if memory outside the arena were unlimited,
// so that no copy waits for another. Much faster.
void LayOutApart(Plan& plan);

// The largest sum of live copies in each Pool: Plan::host_peak_bytes, Plan::peer_peak_bytes.
std::array<int64_t, kPoolCount> PoolPeakBytes(const Plan& plan);

}  // namespace neap
