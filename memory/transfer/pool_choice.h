// Which pool a copy goes to: the memory of the peer, whose link is faster, if the copy fits there
// from its offload to its last prefetch; otherwise the host.
//
// If not all copies fit, the peer takes those with the most reads for the time that they hold their
// bytes: (1 + reads) / length. Each transfer saves the same time per byte, so a byte of the pool
// saves most if it is soon free for the next copy; and a copy that is soon fetched again has the
// least computation to overlap with.
//
//   ^ bytes of the peer
//   |---------------------------------- budget      a, which is away longest, does not fit for its
//   |         [== c ====)                           whole time, and goes to the host
//   |     [== b ============)   [== d ==)
//   +---------------------------------------> transfers
//
// The budget bounds the bytes that are reserved. Placement may leave gaps, so the level up to which
// the peer is filled is lowered until the layout fits.
// *Complexity*: O(copies x log(copies)) and a placement for each level that is tried.
#pragma once

#include <cstdint>

#include "neap/core/plan/plan.h"

namespace neap {

// All offloads of the plan must go to the host; it need not have its waits yet. Tensors that are on
// the host between iterations stay there.
void ChoosePools(int64_t peer_budget_bytes, Plan& plan);

}  // namespace neap
