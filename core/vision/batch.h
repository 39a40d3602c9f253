// The examples of one iteration, a training step or an evaluation, and what the loss compares the
// predictions with. They are images unless it is said otherwise: volumes are C, D, H, W where
// images are C, H, W, and sequences of tokens are integers.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <vector>

#include "absl/types/span.h"
#include "neap/core/program/feeds.h"

namespace neap {

struct Batch {
  std::vector<float> images;    // {size, C, H, W}, normalised
  std::vector<int32_t> labels;  // {size}, or {size, H, W} for a network that labels pixels: classes
      // from 0, or kNoLabel. Of volumes {size, D, H, W}, of tokens {size, T}
  int64_t size = 0;  // number of images; 0 if the vectors alone state it
  // Instead of labels, for a network whose loss compares each element of its predictions with a
  // target: {size, C, H, W} like these, with values or kNoTarget. From labels, such a network takes
  // the targets 1 for the class and 0 for the others, or without a class none.
  std::vector<float> targets = {};
  // Instead of `images`, such values in the caller's memory, which a session reads without a copy
  // of the batch. Those of the host are read until the call returns. Those in the memory of the
  // session's device (`on_device`) are read until the step has finished, after the work that was
  // enqueued on CUDA's legacy default stream before the call.
  absl::Span<const float> borrowed = {};
  bool on_device = false;
  // The size of the images if it is not the network's (Graph::Sizes()); 0: the network's.
  int64_t height = 0;
  int64_t width = 0;
  // Instead of images, for a network that reads integers: {size, T}.
  std::vector<int32_t> tokens = {};
};

inline absl::Span<const float> ImagesOf(const Batch& batch) {
  return batch.borrowed.empty() ? absl::MakeConstSpan(batch.images) : batch.borrowed;
}

// The pixels of all images, or the tokens.
inline int64_t InputsIn(const Batch& batch) {
  return batch.tokens.empty() ? std::ssize(ImagesOf(batch)) : std::ssize(batch.tokens);
}

// How many labels of the batch are classes; if it has targets, how many of these there are.
inline int64_t LabelledIn(const Batch& batch) {
  if (batch.targets.empty())
    return std::ssize(batch.labels) -
           std::count(batch.labels.begin(), batch.labels.end(), kNoLabel);
  return std::count_if(batch.targets.begin(), batch.targets.end(),
                       [](float target) { return !std::isnan(target); });
}

// Images [first, first + count) of a batch that states its size.
inline Batch PartOf(const Batch& batch, int64_t first, int64_t count) {
  const auto part = [&](const auto& values) {
    const int64_t per_image = static_cast<int64_t>(values.size()) / batch.size;
    const auto begin = values.begin() + per_image * first;
    return std::remove_cvref_t<decltype(values)>(begin, begin + per_image * count);
  };
  const int64_t borrowed = static_cast<int64_t>(batch.borrowed.size()) / batch.size;
  return {.images = part(batch.images),
          .labels = part(batch.labels),
          .size = count,
          .targets = part(batch.targets),
          .borrowed = batch.borrowed.subspan(static_cast<size_t>(first * borrowed),
                                             static_cast<size_t>(count * borrowed)),
          .on_device = batch.on_device,
          .height = batch.height,
          .width = batch.width,
          .tokens = part(batch.tokens)};
}

}  // namespace neap
