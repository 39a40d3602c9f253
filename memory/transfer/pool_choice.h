// Which pool a copy goes to: the peer's memory, whose link is the faster one, while the copy fits
// there from its offload to its last prefetch; else the host's.
//
// Where not all fit, those go to the peer that are read most often for the time that they hold
// their bytes: (1 + reads) / length. Each transfer gains the same per byte, so a byte of the pool
// gains most from copies that leave it soon to the next; and who is wanted back soonest has the
// least computation to hide its copies behind.
//
//   ^ bytes of the peer
//   |---------------------------------- budget      a, the longest away, finds no room for all of
//   |         [== c ====)                           its life, and goes to the host
//   |     [== b ============)   [== d ==)
//   +---------------------------------------> transfers
//
// The budget bounds what is reserved. Placement may leave gaps, so the level up to which the peer
// is filled is lowered until the layout fits.
// *Complexity*: O(copies x log(copies)) and a placement, for each level that is tried.
#pragma once

#include <cstdint>

#include "neap/core/plan/plan.h"

namespace neap {

// Of a plan whose offloads are all for the host, and which need not have its waits yet. Tensors
// that are on the host between iterations stay there.
void ChoosePools(int64_t peer_budget_bytes, Plan& plan);

}  // namespace neap
