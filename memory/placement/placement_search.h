// Search for a placement that is tight: several orders in which to place the blocks, then the best
// is squeezed under ever lower limits (memory/placement/ejection_search.h).
//
// What makes it affordable is that small blocks do not decide. One that is sure to find a gap among
// those that share a step with it, however they lie, can come last; without it, that holds for
// more. What is left, the core, is searched:
//
//   ^ offset
//   |  +----a----+  +---+     k = 2 neighbours leave at most 3 gaps below the target. If all of
//   |  +---------+  | b |     them were too small for c, a, b and the gaps would fill less than
//   |      c        +---+     a + b + 3c. So c is no part of the core if a + b + 3c <= target.
//   +-----------------------> steps
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "neap/memory/placement/placement.h"

namespace neap {

// The best placement found whose extent is less than `known`'s, else `known`. Stops at
// `target_bytes`.
// *Complexity*: comparisons of two blocks, at most `most_comparisons` and fewer where there are few
// blocks. Counted, not timed, so that plans do not depend on the machine.
PlacementResult SearchPlacement(const std::vector<PlacementBlock>& blocks, int64_t target_bytes,
                                int64_t most_comparisons, PlacementResult known);

// The blocks that decide, and the others in the order in which to place them after those: none will
// reach over `target_bytes`, or over the core if that does.
struct PlacementCore {
  std::vector<size_t> core;
  std::vector<size_t> others;
};
PlacementCore SplitPlacement(const std::vector<PlacementBlock>& blocks, int64_t target_bytes);

}  // namespace neap
