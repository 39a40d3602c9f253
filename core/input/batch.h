// What one training step consumes.
#pragma once

#include <cstdint>
#include <vector>

namespace neap {

struct Batch {
  std::vector<float> images;    // {size, C, H, W}, normalised
  std::vector<int32_t> labels;  // {size}, or {size, H, W} for a network that labels pixels
  int64_t size = 0;             // images
};

}  // namespace neap
