// The places of copies outside the arena, in a pool of pinned host memory and in one of a peer
// GPU's memory (SuperNeurons 3.3, the unified tensor pool).
//
// A copy has its bytes from its offload to the last prefetch that reads it; after that another copy
// may have them. The d2h stream then fills bytes that the h2d stream reads, and must wait for that:
// memory/transfer/waits.h writes the wait.
//
//   ^ bytes of the pool
//   |            [== c ====)
//   |  [== a ========)  [== b ====)       b has the bytes that a had: its offload waits for the
//   +--------------------------------->   prefetch of a
//                        transfers
//
//   plan.actions = ...;        // without waits; every offload names its pool
//   LayOutPools(plan);         // every offload has its offset, the plan its pools' bytes
//   plan.actions = WithWaits(plan);
//
// Only the order of the transfers decides where copies lie. Tensors that are on the host between
// iterations have the first bytes of the host's pool (core/plan/describe_program.h).
// *Complexity*: O(copies x log(copies)), and what placement takes (memory/placement/placement.h).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "neap/core/plan/plan.h"

namespace neap {

// A copy of a tensor that is not on the host between iterations. Times are counted in transfers, of
// all pools: from the offload to one past the last prefetch, to the next offload of the tensor
// where there is none, or to the end.
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
// Of copies that share a pool.
PoolLayout LayOutCopies(const std::vector<ExternalCopy>& copies);

// Sets the offsets of the plan's offloads and the bytes of its pools.
void LayOutPools(Plan& plan);

// Does the same, but gives each copy bytes of its own, as if memory outside the arena were
// unlimited: no copy waits for another then. Much quicker.
void LayOutApart(Plan& plan);

// By Pool, the largest sum of copies alive: Plan::host_peak_bytes, Plan::peer_peak_bytes.
std::array<int64_t, kPoolCount> PoolPeakBytes(const Plan& plan);

}  // namespace neap
