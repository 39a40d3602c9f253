// Policy `auto`: what is cheap to rebuild is rebuilt, what computation hides is moved, and the rest
// is kept.
//
// Its orders of runs are those of the other policies that act on need, and a rebuild frontier
// (recompute/rebuild_frontier.h) over the times of the device. In each of them the tensor cache
// moves what the memory limit still requires (by both rules of eviction in those of the frontier
// that move nothing themselves), and the fastest plan is taken. So it tries all candidates of
// liveness, tensor-cache, superneurons and chen, too; those of the policies that offload eagerly
// are tried as they are (Policy::contains_eager).
#pragma once

#include <vector>

#include "neap/core/program/program.h"
#include "neap/recompute/rebuild_prices.h"
#include "neap/recompute/recompute.h"

namespace neap {

// For Policy::priced_orders.
std::vector<RunOrder> FrontierOrders(const Program& program, const RebuildPrices& prices);

}  // namespace neap
