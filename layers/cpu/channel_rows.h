// Loops over the elements of an image tensor with the channel of each, in memory order.
#pragma once

#include <cstdint>

#include "neap/core/base/tensor.h"

namespace neap::cpu {

// A tensor as rows in memory. NCHW: a row is one channel's plane of one image. NHWC: a row is one
// pixel with all its channels. Every loop therefore has two forms: per-channel numbers are
// constant along a row, or vary along it.
struct ChannelRows {
  int64_t images, channels, pixels;
  bool channels_last;
  int64_t count() const { return images * pixels; }  // elements per channel
};

inline ChannelRows ChannelRowsOf(const TensorSpec& spec) {
  return {spec.shape.n(), spec.shape.c(), spec.shape.h() * spec.shape.w(),
          spec.layout == Layout::kNhwc};
}

// Calls apply(offset, c) for every element.
template <typename Apply>
void ForEachElement(const ChannelRows& rows, Apply apply) {
  if (rows.channels_last) {
    for (int64_t r = 0; r < rows.count(); ++r) {
      for (int64_t c = 0; c < rows.channels; ++c) apply(r * rows.channels + c, c);
    }
    return;
  }
  for (int64_t r = 0; r < rows.images * rows.channels; ++r) {
    const int64_t c = r % rows.channels;
    for (int64_t p = 0; p < rows.pixels; ++p) apply(r * rows.pixels + p, c);
  }
}

inline float ReluOf(float x) { return x <= 0 ? 0 : x; }  // NaN passes

}  // namespace neap::cpu
