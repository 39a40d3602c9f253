// Placement search: places the blocks in several orders, and then squeezes the best result under
// lower and lower limits (memory/placement/ejection_search.h).
//
// It is affordable because small blocks do not matter. A block that is sure to find a gap among the
// blocks that share a step with it, however they lie, can be placed last. Without it, more blocks
// are sure to find one. The search only places what is left, the core:
//
//   ^ offset
//   |  +----a----+  +---+     k = 2 neighbours leave at most 3 gaps below the target. If all of
//   |  +---------+  | b |     them were too small for c, a, b and the gaps would fill less than
//   |      c        +---+     a + b + 3c. So c is not in the core if a + b + 3c <= target.
//   +-----------------------> steps
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "neap/memory/placement/placement.h"

namespace neap {

struct SearchGoal {
  int64_t target_bytes = 0;      // what the search tries to reach
  int64_t enough_bytes = 0;      // it stops when the extent is at most this, at least the target
  int64_t most_comparisons = 0;  // of two blocks
};
// Returns the best placement found, which is `known` if no other is smaller.
// *Complexity*: at most `most_comparisons` comparisons of two blocks, and fewer for few blocks, for
// the core; and in the end, once, as many as placing the others after it takes. Where that may be
// over a billion, nothing is searched. Comparisons are counted, not timed, so that plans do not
// depend on the machine.
PlacementResult SearchPlacement(const std::vector<PlacementBlock>& blocks, const SearchGoal& goal,
                                PlacementResult known);

// The core, and the other blocks in the order in which to place them after it. None of those will
// end above `target_bytes`, or above the core if the core does.
struct PlacementCore {
  std::vector<size_t> core;
  std::vector<size_t> others;
};
PlacementCore SplitPlacement(const std::vector<PlacementBlock>& blocks, int64_t target_bytes);

}  // namespace neap
