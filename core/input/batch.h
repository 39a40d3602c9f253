// What one training step consumes.
#pragma once

#include <cstdint>
#include <vector>

namespace neap {

// In place of a class: the image, or the pixel, has none. It adds nothing to the loss, which stays
// the mean over all labels, nothing to the gradients, and never counts as correct.
inline constexpr int32_t kNoLabel = -1;

struct Batch {
  std::vector<float> images;    // {size, C, H, W}, normalised
  std::vector<int32_t> labels;  // {size}, or {size, H, W} for a network that labels pixels: classes
                                // from 0, or kNoLabel
  int64_t size = 0;             // images
};

}  // namespace neap
