// Inserts the waits into a plan. Copies run concurrently with compute, so an action that reads
// bytes which another stream writes, or reuses bytes which another stream still accesses, must wait
// for it. The bytes may be in the arena or in a pool outside it. A wait is inserted only if no
// earlier wait of the stream implies it.
//
//   compute 4 (writes conv1)    offload conv1    compute 5    alloc relu2 over conv1's bytes
//                            ^                                                          ^
//                            d2h waits for 4                      compute waits for the offload
//
//   offload a    prefetch a    offload b over the copy of a
//                            ^
//                            d2h waits for the prefetch
//
// Implied waits are found with vector clocks: an action carries the clock of its stream when it was
// issued, and a stream that waits for the action merges that clock into its own.
//
// *Complexity*: O(operands x log(pieces of the arena and the pools)).
#pragma once

#include <vector>

#include "neap/core/plan/plan.h"

namespace neap {

// Returns the plan's actions, which have no waits, with the waits that they need. The offsets of
// offloads matter, so the pools must have been laid out (memory/transfer/pools.h).
std::vector<Action> WithWaits(const Plan& plan);

}  // namespace neap
