// Tensors that are concatenated along the channels, as rows in memory, and copies of their parts.
#pragma once

#include <cstdint>

#include "neap/core/base/tensor.h"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::cuda {

// The whole has `rows` rows of `length` elements; an input contributes `per_channel` elements for
// each of its channels to every row.
struct Concatenation {
  int64_t rows, length, per_channel;

  // Copies a part of so many channels into the whole, or out of it.
  kernels::RowCopy Copy(int64_t channels, bool into, bool accumulate = false) const {
    const int64_t width = channels * per_channel;
    return {.rows = rows,
            .width = width,
            .in_stride = into ? width : length,
            .out_stride = into ? length : width,
            .accumulate = accumulate};
  }
};

inline Concatenation ConcatenationOf(const TensorSpec& whole) {
  const int64_t pixels = whole.shape.positions();
  if (whole.layout == Layout::kChannelsLast) return {whole.shape.n() * pixels, whole.shape.c(), 1};
  return {whole.shape.n(), whole.shape.c() * pixels, pixels};
}

}  // namespace neap::cuda
