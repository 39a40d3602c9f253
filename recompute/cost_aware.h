// Cost-aware recomputation (SuperNeurons 3.4): each segment is speed-centric, which reruns least,
// unless that needs more memory than the busiest layer does anyway; then it is memory-centric.
//
// The paper decides for each segment by itself: it compares the sum of the segment's tensors with
// l_peak, the largest working set of a layer. Here the whole iteration is looked at:
//
//   1. MeetBound adds checkpoints until memory-centric reruns stay within the bound.
//   2. All segments begin speed-centric. The usage of every run is summed up (UsagePerRun). Each
//      segment that has rebuilt tensors in memory at a run above the bound becomes memory-centric.
//      This is repeated until no segment changes.
//
//   usage  ^        ____
//   bound  |- - - -|- - |- - - - - -     segment 2 has rebuilt tensors in memory where the usage
//          |  ____ |    |  ___           exceeds the bound: it becomes memory-centric, and the
//          |_|    ||    |_|   |__        usage of all runs is summed up again
//          +---------------------> runs
//            seg 3  seg 2  seg 1
//
// Why the paper's test is not enough:
//   * On networks that fan out and join, a segment's tensors are not alone: gradients and saved
//     tensors wait there too. So the bound is the layer-wise one (recompute/layerwise_bound.h),
//     which counts them, and not l_peak; and tensors of several segments can be in memory at once.
//   * Kernels do not read all tensors of a segment, and results are computed in place. The sum
//     counts tensors that are never in memory together, so it would reject too many segments.
//   * A rerun can itself need more than any step does: the way to a small tensor may lead over a
//     large one (conv -> bn -> relu -> pool, 4 times smaller). No mode helps there. Then the small
//     tensor becomes a checkpoint.
//
//   Segments segments = CheckpointSegments(program);
//   MeetBound(program, bound_bytes, segments);
//   const ComputeSequence runs = CostAwareOrder(program, segments, bound_bytes);
//
// *Complexity*: a pass over the runs for each round; at most one round more than there are segments
// (CostAwareOrder) or tensors (MeetBound).
#pragma once

#include <cstdint>

#include "neap/core/program/lifetimes.h"
#include "neap/core/program/program.h"
#include "neap/recompute/segments.h"

namespace neap {

// Results are in place wherever they can be, so that the order does not depend on that option.
bool CanBeInPlace(const Program& program);

// Makes checkpoints of small tensors until memory-centric reruns stay within the bound, or no
// checkpoint helps.
void MeetBound(const Program& program, int64_t bound_bytes, Segments& segments);

ComputeSequence CostAwareOrder(const Program& program, const Segments& segments,
                               int64_t bound_bytes);

}  // namespace neap
