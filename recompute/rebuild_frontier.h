// The rebuild frontier: for ever less memory, the results that are cheapest to rebuild.
//
// The papers' rules fix which results are rebuilt: all cheap ones (SuperNeurons 3.4), or all but
// the cuts between segments (Chen et al., 2016). A budget is rarely where such a rule ends. Here
// results are dropped one after another, where the most bytes are live, and at each place the one
// whose rebuilding takes the least time per byte. Every stop on the way is an order of runs with a
// peak of its own:
//
//   rerun seconds
//   ^ *                              * an order of runs: a rebuild point
//   |   *  *
//   |         * *                    the last points rebuild convolutions, the first ones
//   |              *  * *  *         batch norms and ReLUs
//   +----------------------------*---> peak bytes
//                                 nothing is rebuilt
//
// Reruns are on demand (recompute/rerun_order.h): a result is rebuilt before its first use in
// backward and kept until its last. What is hard is memory: a result that is rebuilt from another
// dropped one brings back a whole chain. At the place with the most bytes, these moves are tried
// until one lowers them:
//
//   drop   a step, with the steps before it whose results only its reruns read
//   again  what is rebuilt there for later is rebuilt anew for each backward step that reads it
//   pin    one of the results that are rebuilt there is kept, which cuts their chain; with moves at
//          the place that has the most bytes then, if need be
//   send   where rebuilding frees nothing more, a result is moved to the host and back; that may
//          also be one of those that are rebuilt there
//
// In the end, at every stop and between two, what need not be dropped for so many bytes gets a
// faster retention after all: it is kept, rebuilt only once, or moved while computation hides the
// copies; and what was rebuilt stays for later readers where bytes are free. In small networks,
// other retentions of one and of two steps are tried around every stop.
//
//   const std::vector<RebuildPoint> points = RebuildFrontier(program, prices);
//   points.front().runs;   // nothing is rebuilt
//   points.back().peak_bytes;
//
// *Complexity*: a pass over the runs for each move; about two million runs for all of the way down,
// where the frontier ends if that is not enough, sixteen million for faster retentions, as many for
// reruns that are spared, and two million around the stops of small networks. *Threads*: faster
// retentions are looked for on several.
#pragma once

#include <vector>

#include "neap/core/program/program.h"
#include "neap/recompute/rebuild_points.h"
#include "neap/recompute/rebuild_prices.h"

namespace neap {

// Points are in descending order of their peaks, which may be equal if results are moved; the first
// one rebuilds and moves nothing. No other point that counts its peak in the same way, or moves
// nothing, and spares reruns or does not as well, has as low a peak, as little time and as few
// bytes to move as one after the first; in small networks at most one other has. In inference there
// is only the first.
std::vector<RebuildPoint> RebuildFrontier(const Program& program, const RebuildPrices& prices);

}  // namespace neap
