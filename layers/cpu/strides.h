// The places of an image tensor's elements in memory.
#pragma once

#include <cstdint>

#include "neap/core/base/tensor.h"

namespace neap::cpu {

// Distances between neighbours along each axis, in elements.
struct Strides {
  int64_t n, c, h, w;
};

inline Strides StridesOf(const TensorSpec& spec) {
  const Shape& s = spec.shape;
  if (spec.layout == Layout::kChannelsLast) return {s.positions() * s.c(), 1, s.w() * s.c(), s.c()};
  return {s.c() * s.positions(), s.positions(), s.w(), 1};
}

}  // namespace neap::cpu
