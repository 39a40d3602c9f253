// The images of one iteration, a training step or an evaluation, and what the loss compares the
// predictions with.
#pragma once

#include <cstdint>
#include <iterator>
#include <limits>
#include <type_traits>
#include <vector>

namespace neap {

// The label of an image or pixel without a class. It adds nothing to the gradients and to the loss,
// which is still the mean over all labels, and never counts as correct.
inline constexpr int32_t kNoLabel = -1;

// The target of an element for which there is none. It adds nothing to the gradients and to the
// loss, which is still the mean over all elements.
inline constexpr float kNoTarget = std::numeric_limits<float>::quiet_NaN();

struct Batch {
  std::vector<float> images;    // {size, C, H, W}, normalised
  std::vector<int32_t> labels;  // {size}, or {size, H, W} for a network that labels pixels: classes
                                // from 0, or kNoLabel
  int64_t size = 0;             // number of images; 0 if the vectors alone state it
  // Instead of labels, for a network whose loss compares each element of its predictions with a
  // target: {size, C, H, W} like these, with values or kNoTarget. From labels, such a network takes
  // the targets 1 for the class and 0 for the others, or without a class none.
  std::vector<float> targets = {};
};

// Images [first, first + count) of a batch that states its size.
inline Batch PartOf(const Batch& batch, int64_t first, int64_t count) {
  const auto part = [&](const auto& values) {
    const int64_t per_image = std::ssize(values) / batch.size;
    const auto begin = values.begin() + per_image * first;
    return std::remove_cvref_t<decltype(values)>(begin, begin + per_image * count);
  };
  return {.images = part(batch.images),
          .labels = part(batch.labels),
          .size = count,
          .targets = part(batch.targets)};
}

}  // namespace neap
