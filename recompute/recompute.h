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
//   ComputeSequence runs = SequenceRuns(program, Recomputation::kCostAware);
//   ExtraForwards(runs);
#pragma once

#include <cstdint>
#include <vector>

#include "neap/core/lifetimes.h"
#include "neap/core/program.h"

namespace neap {

enum class Recomputation : uint8_t {
  kNone,
  kSpeedCentric,
  kMemoryCentric,
  kCostAware,
  kEvenSegments,  // Chen et al., 2016: sqrt(n) segments, rebuilt as speed-centric does
};

// A rerun comes right before the backward step that wants it.
ComputeSequence SequenceRuns(const Program& program, Recomputation recomputation);

int64_t ExtraForwards(const ComputeSequence& runs);

// What no layer-wise schedule can do without, in bytes of activations, saved tensors and gradients:
// at each step its working set, and the gradients that are open there (begun, but waiting: at the
// fans and joins of the network) with the saved tensors. SuperNeurons' l_peak is the largest
// working set.
struct LayerwiseBound {
  int64_t bytes = 0;   // the largest sum over steps
  StepId step;         // where
  int64_t l_peak = 0;  // the largest working set alone
};
LayerwiseBound BoundLayerwise(const Program& program, bool in_place);

}  // namespace neap
