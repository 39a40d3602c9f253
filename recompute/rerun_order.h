// The order of runs with recomputation: forward steps run again where a backward step reads what
// was dropped (SuperNeurons 3.4).
//
//   forward   conv*  relu  lrn  pool  conv*        relu, lrn and pool are dropped after their last
//                                                  forward use (* checkpoint: kept)
//   backward  (speed-centric)
//     relu lrn pool  conv'  pool'  lrn'  relu' ..  one rerun of the segment, kept until used
//   backward  (memory-centric)
//     relu lrn pool  conv'  relu lrn  pool'  relu  lrn'  relu' ..   one rerun for each step that
//                                                  reads: n (n + 1) / 2 forwards for n layers
//   backward  (on demand)                          as speed-centric, but each result, with the way
//     ...                                          to it, when it is first read
//
// Small results, masks and indices of pooling, are kept until used in every mode.
//
// The order is all that is decided here. The lifetimes follow from it, and from those every place
// in memory.
//
//   const Segments segments = CheckpointSegments(program);
//   const ComputeSequence runs = OrderReruns(program, segments, RerunMode::kSpeedCentric);
//   ExtraForwards(runs);
#pragma once

#include <cstdint>
#include <vector>

#include "neap/core/program/lifetimes.h"
#include "neap/core/program/program.h"
#include "neap/recompute/segments.h"

namespace neap {

// How a segment is recomputed: all of it once and kept until used; for each backward step what that
// step reads; or every result once, when it is first read, and kept until used.
enum class RerunMode : uint8_t { kSpeedCentric, kMemoryCentric, kOnDemand };

// `modes`: by segment. A rerun comes right before the backward step that reads its result.
ComputeSequence OrderReruns(const Program& program, const Segments& segments,
                            const std::vector<RerunMode>& modes);
// With the same mode for all segments.
ComputeSequence OrderReruns(const Program& program, const Segments& segments, RerunMode mode);

int64_t ExtraForwards(const ComputeSequence& runs);

}  // namespace neap
