// The images and labels of one iteration: a training step, or an evaluation.
#pragma once

#include <cstdint>
#include <vector>

namespace neap {

// The label of an image or pixel without a class. It adds nothing to the gradients and to the loss,
// which is still the mean over all labels, and never counts as correct.
inline constexpr int32_t kNoLabel = -1;

struct Batch {
  std::vector<float> images;    // {size, C, H, W}, normalised
  std::vector<int32_t> labels;  // {size}, or {size, H, W} for a network that labels pixels: classes
                                // from 0, or kNoLabel
  int64_t size = 0;             // number of images; 0 if the vectors alone state it
};

}  // namespace neap
