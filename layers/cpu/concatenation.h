// Copies between a concatenation of tensors and its parts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "neap/layers/steps/concatenation.h"

namespace neap::cpu {

inline void CopyOrAdd(const float* from, int64_t count, bool add, float* to) {
  if (!add) {
    if (from != to) std::copy_n(from, count, to);
    return;
  }
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

// `whole` is the first element of the part in the whole. Each returns that of the next part.
inline float* CopyInto(const Concatenation& concat, const float* part, int64_t channels,
                       float* whole) {
  const int64_t run = channels * concat.per_channel;
  for (int64_t r = 0; r < concat.rows; ++r)
    std::copy_n(part + r * run, run, whole + r * concat.length);
  return whole + run;
}
inline float* SetZero(const Concatenation& concat, int64_t channels, float* whole) {
  const int64_t run = channels * concat.per_channel;
  for (int64_t r = 0; r < concat.rows; ++r) std::fill_n(whole + r * concat.length, run, 0.0F);
  return whole + run;
}
// Copies to the part, or adds to it.
inline const float* CopyFrom(const Concatenation& concat, const float* whole, int64_t channels,
                             bool add, float* part) {
  const int64_t run = channels * concat.per_channel;
  for (int64_t r = 0; r < concat.rows; ++r)
    CopyOrAdd(whole + r * concat.length, run, add, part + r * run);
  return whole + run;
}

}  // namespace neap::cpu
