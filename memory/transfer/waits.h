// Puts the waits into a plan: copies run beside the computation, so whoever reads bytes that
// another stream writes, or reuses bytes that another stream still touches, must wait for it. Only
// where that is so, and only where nothing it has waited for already implies it.
//
//   compute 4 (writes conv1)    offload conv1    compute 5    alloc relu2 over conv1's bytes
//                            ^                                                          ^
//                            d2h waits for 4                      compute waits for the offload
//
// What a stream has waited for is kept as in vector clocks: an action knows what its stream knew
// when it was issued, and whoever waits for it learns that too.
//
// *Complexity*: O(operands x log(pieces of the arena)).
#pragma once

#include <vector>

#include "neap/core/plan/plan.h"

namespace neap {

// The plan's actions, which have no waits, with those that they need.
std::vector<Action> WithWaits(const Plan& plan);

}  // namespace neap
