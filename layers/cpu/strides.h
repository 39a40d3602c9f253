// The places of the elements of images and volumes in memory.
#pragma once

#include <cstdint>

#include "neap/core/base/tensor.h"

namespace neap::cpu {

// Distances between neighbours along each axis, in elements. An image is a volume of one plane.
struct Strides {
  int64_t n, c, d, h, w;
};

inline Strides StridesOf(const TensorSpec& spec) {
  const Shape& s = spec.shape;
  const bool channels_last = spec.layout == Layout::kChannelsLast;
  const int64_t pixel = channels_last ? s.c() : 1;
  return {.n = s.c() * s.positions(),
          .c = channels_last ? 1 : s.positions(),
          .d = s.h() * s.w() * pixel,
          .h = s.w() * pixel,
          .w = pixel};
}

}  // namespace neap::cpu
