// Offline placement: offsets for blocks whose lifetimes are all known, so that the arena is as
// small as possible.
//
// This is dynamic storage allocation, NP-hard in general; the largest sum of live bytes at any step
// is a lower bound. On the stack-like lifetimes of training, a heap that knows the future and a few
// greedy orders come within a percent of it:
//
//   in order of time: the hole     longest-lived first:
//   that a leaves is too small
//   for d
//
//   3 |   d d
//   2 |   d d                        2 |   d d
//   1 | b b b                        1 | a d d
//   0 | a . .                        0 | b b b
//     +-------> steps                  +-------> steps
//
// Several orders are tried. The best result is kept, and then squeezed while that pays
// (memory/placement/placement_search.h, memory/placement/ejection_search.h). The result is
// deterministic.
// *Complexity*: O(n log n) for the orders of a heap, and then a bounded number of comparisons.
//
//   const PlacementResult tight = PlaceOffline(blocks);
//   const bool fits = PlaceOffline(blocks, {.target_bytes = most}).extent_bytes <= most;
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "neap/memory/placement/heap.h"

namespace neap {

// Bytes needed during steps [begin, end).
struct PlacementBlock {
  int64_t bytes = 0;  // whole blocks
  int begin = 0;
  int end = 0;
};

struct PlacementResult {
  std::vector<int64_t> offsets;  // parallel to the blocks
  int64_t extent_bytes = 0;      // highest end
};

// The largest sum of live bytes at any step. No placement is smaller.
int64_t PlacementLowerBound(const std::vector<PlacementBlock>& blocks);

struct PlacementGoal {
  // The search stops as soon as the extent is at most this. A target below the lower bound cannot
  // be met, and is ignored: then the search stops close to the bound.
  int64_t target_bytes = 0;
  int64_t most_comparisons = 80'000'000;  // of two blocks; takes about 150 ms
  // If it is given, only whether the extent is at most this counts: the search stops as soon as
  // that is known. The answer is the same as without it.
  std::optional<int64_t> limit_bytes = {};
};
PlacementResult PlaceOffline(const std::vector<PlacementBlock>& blocks,
                             const PlacementGoal& goal = {});

// The places that a heap finds without knowing the future: blocks come in order of `begin`, those
// that begin together in the order of the vector.
PlacementResult PlaceOnline(const std::vector<PlacementBlock>& blocks, Fit fit);

}  // namespace neap
