// Recomputation: the order in which an iteration's steps run when backward rebuilds what forward
// has dropped (SuperNeurons 3.4).
//
//   forward   conv*  relu  lrn  pool  conv*        relu, lrn and pool are dropped after their last
//   backward  (speed-centric)                      forward use
//     relu lrn pool  conv'  pool'  lrn'  relu' ..  one rerun of the segment, kept until used
//   backward  (memory-centric)
//     relu lrn pool  conv'  relu lrn  pool'  relu  lrn'  relu' ..   each step's needs anew: a
//                                                  segment of n layers costs n (n + 1) / 2 forwards
//
// Cost-aware takes speed-centric where that stays under the layer-wise bound (below) and
// memory-centric elsewhere. The order is all that is decided here; from it follow the lifetimes,
// and from those every place in memory.
//
// A rerun can itself need more than any step does: the way to a small tensor may lead over a large
// one (conv -> bn -> relu -> pool, 4 times smaller). Then the small one becomes a checkpoint, until
// memory-centric stays under the bound.
//
//   RunOrder order = OrderRuns(program, Recomputation::kCostAware);
//   ExtraForwards(order.runs);
#pragma once

#include <cstdint>
#include <vector>

#include "neap/core/program/lifetimes.h"
#include "neap/core/program/program.h"
#include "neap/recompute/layerwise_bound.h"

namespace neap {

enum class Recomputation : uint8_t {
  kNone,
  kSpeedCentric,
  kMemoryCentric,
  kCostAware,
  kEvenSegments,  // Chen et al., 2016: sqrt(n) segments, rebuilt as speed-centric does
};

struct RunOrder {
  ComputeSequence runs;           // a rerun comes right before the backward step that wants it
  std::vector<bool> checkpoints;  // by TensorId: what is kept of CONV, FC and Add, and the small
                                  // ones above; empty with kNone and kEvenSegments
};
RunOrder OrderRuns(const Program& program, Recomputation recomputation);

int64_t ExtraForwards(const ComputeSequence& runs);

}  // namespace neap
