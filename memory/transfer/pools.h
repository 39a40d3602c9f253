// External pools: a block of memory each, of the host (pinned) and of a peer GPU, in which the
// copies that a plan sends there have their places (SuperNeurons 3.3, the unified tensor pool).
//
// A plan says when a tensor leaves, for which pool, and when it comes back, not where it lies in
// between. A copy's place is its own from the offload to the last prefetch that reads it; then
// another's. Because the d2h stream fills places that the h2d stream has read, it must wait there,
// and the layout says for what:
//
//   actions   offload a ... prefetch a ... offload b      b's bytes were a's: d2h waits for the
//   place     [== a ==================)    [== b ==)      prefetch
//
//   const PoolLayouts layouts = LayOutPools(plan);
//   layouts[static_cast<size_t>(Pool::kPeer)].bytes;   // to be reserved on the peer
//
// Only the order of transfers decides where copies lie, so that waits may be put into a plan later.
// *Complexity*: O(copies x log(copies)), and what placement takes (memory/placement/placement.h).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "neap/core/plan/plan.h"

namespace neap {

// The places of tensors that are on the host between iterations: one after another, in the order of
// their ids, the same in every plan of a network. By TensorId; 0 for others.
struct HostHomes {
  std::vector<int64_t> offsets;
  int64_t bytes = 0;
};
HostHomes LayOutHostHomes(const Plan& plan);

// Any other copy. Times are counted in transfers, of all pools: from the offload to one past the
// last prefetch, to the next offload of the tensor where there is none, or to the end.
struct ExternalCopy {
  TensorId tensor;
  Pool pool = Pool::kHost;
  int64_t bytes = 0;   // whole blocks
  int64_t action = 0;  // the offload's index in the plan
  int begin = 0;
  int end = 0;
  int reads = 0;                          // prefetches
  std::optional<int64_t> last_read = {};  // the last one's index
};
std::vector<ExternalCopy> FindCopies(const Plan& plan);  // in order of `action`

struct PoolPlace {
  int64_t action = 0;  // the offload's index in the plan
  TensorId tensor;
  int64_t offset = 0;
  std::optional<int64_t> wait_for = {};  // the prefetch, by index, that reads these bytes last
};
struct PoolLayout {
  std::vector<PoolPlace> places;  // in order of `action`
  int64_t bytes = 0;
};
// Of copies that share a pool.
PoolLayout LayOutCopies(const std::vector<ExternalCopy>& copies);

// By Pool.
using PoolLayouts = std::array<PoolLayout, kPoolCount>;
PoolLayouts LayOutPools(const Plan& plan);

// By Pool, the largest sum of copies alive: Plan::host_peak_bytes, Plan::peer_peak_bytes.
std::array<int64_t, kPoolCount> PoolPeakBytes(const Plan& plan);

}  // namespace neap
