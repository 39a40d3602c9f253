// Tensors that are concatenated along the channels, as rows in memory, and copies of their parts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "neap/core/base/tensor.h"

namespace neap::cpu {

inline void CopyOrAdd(const float* from, int64_t count, bool add, float* to) {
  if (!add) {
    if (from != to) std::copy_n(from, count, to);
    return;
  }
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

// The whole has `rows` rows of `length` elements; a part contributes `per_channel` elements for
// each of its channels to every row.
struct Concatenation {
  int64_t rows = 0, length = 0, per_channel = 0;

  // `whole` is the first element of the part in the whole. Each returns that of the next part.
  float* CopyInto(const float* part, int64_t channels, float* whole) const {
    const int64_t run = channels * per_channel;
    for (int64_t r = 0; r < rows; ++r) std::copy_n(part + r * run, run, whole + r * length);
    return whole + run;
  }
  float* SetZero(int64_t channels, float* whole) const {
    const int64_t run = channels * per_channel;
    for (int64_t r = 0; r < rows; ++r) std::fill_n(whole + r * length, run, 0.0F);
    return whole + run;
  }
  // Copies to the part, or adds to it.
  const float* CopyFrom(const float* whole, int64_t channels, bool add, float* part) const {
    const int64_t run = channels * per_channel;
    for (int64_t r = 0; r < rows; ++r) CopyOrAdd(whole + r * length, run, add, part + r * run);
    return whole + run;
  }
};

inline Concatenation ConcatenationOf(const TensorSpec& whole) {
  const int64_t pixels = whole.shape.positions();
  if (whole.layout == Layout::kChannelsLast) return {whole.shape.n() * pixels, whole.shape.c(), 1};
  return {whole.shape.n(), whole.shape.c() * pixels, pixels};
}

}  // namespace neap::cpu
