// Tensors that are concatenated along the channels, as rows in memory.
#pragma once

#include <cstdint>

#include "neap/core/base/tensor.h"

namespace neap {

// The whole has `rows` rows of `length` elements; a part contributes `per_channel` elements for
// each of its channels to every row.
struct Concatenation {
  int64_t rows = 0, length = 0, per_channel = 0;
};

inline Concatenation ConcatenationOf(const TensorSpec& whole) {
  const int64_t positions = whole.shape.positions();
  if (whole.layout == Layout::kChannelsLast)
    return {whole.shape.n() * positions, whole.shape.c(), 1};
  return {whole.shape.n(), whole.shape.c() * positions, positions};
}

}  // namespace neap
