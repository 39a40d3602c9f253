// Blocks to place as training has them, for tests and benchmarks of placement.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "neap/core/plan/plan.h"
#include "neap/memory/placement/placement.h"

namespace neap::testing {

// Layer k's tensor, of at most `most_blocks` blocks, is made in step k and needed again in step
// 2 * layers - k; three of four are away in between, as with offload and recomputation, and come
// back as a stay of their own.
inline std::vector<PlacementBlock> SeparateStays(std::mt19937& random, int layers,
                                                 uint32_t most_blocks) {
  std::vector<PlacementBlock> blocks;
  for (int k = 0; k < layers; ++k) {
    const int64_t bytes = kBlockBytes * (1 + static_cast<int64_t>(random() % most_blocks));
    const int last = 2 * layers - k;
    if (random() % 4 == 0) {
      blocks.push_back({bytes, k, last + 1});
      continue;
    }
    blocks.push_back({bytes, k, std::min(k + 2 + static_cast<int>(random() % 8), last)});
    blocks.push_back({bytes, last - 1, last + 1});
  }
  return blocks;
}

}  // namespace neap::testing
