// Puts the waits into a plan: copies run beside the computation, so an action that reads bytes that
// another stream writes, or reuses bytes that another stream still touches, must wait for it. The
// bytes may be the arena's or those of a pool outside it. There is a wait only where that is so,
// and only where nothing that the stream has waited for already implies it.
//
//   compute 4 (writes conv1)    offload conv1    compute 5    alloc relu2 over conv1's bytes
//                            ^                                                          ^
//                            d2h waits for 4                      compute waits for the offload
//
//   offload a    prefetch a    offload b over the copy of a
//                            ^
//                            d2h waits for the prefetch
//
// What a stream has waited for is kept as in vector clocks: an action knows what its stream knew
// when it was issued, and a stream that waits for it learns that too.
//
// *Complexity*: O(operands x log(pieces of the arena and the pools)).
#pragma once

#include <vector>

#include "neap/core/plan/plan.h"

namespace neap {

// The plan's actions, which have no waits, with those that they need. The offsets of offloads
// count: the pools must have been laid out (memory/transfer/pools.h).
std::vector<Action> WithWaits(const Plan& plan);

}  // namespace neap
