// The sliding window that convolution and pooling share.
#pragma once

#include <algorithm>
#include <cstdint>

#include "neap/core/base/tensor.h"

namespace neap {

// Height and width; `Extent2d e = 3` means 3x3.
struct Extent2d {
  int64_t h = 0;
  int64_t w = 0;
  constexpr Extent2d(int64_t both) : h(both), w(both) {}  // NOLINT(google-explicit-constructor)
  constexpr Extent2d(int64_t height, int64_t width) : h(height), w(width) {}
  friend constexpr bool operator==(Extent2d, Extent2d) = default;
};

// The most that CheckWindow() (core/step/specify.h) allows for kernel, stride, padding and
// dilation, so that no sum or product of two of them overflows.
inline constexpr int64_t kMaxWindowExtent = (int64_t{1} << 31) - 1;

// Number of window positions along one axis: floor((size + 2 padding - dilation (kernel - 1) - 1) /
// stride) + 1, or 0 if the window does not fit. For windows that CheckWindow() accepts, and sizes
// of images that CheckImageInputs() accepts.
constexpr int64_t WindowPositions(int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                                  int64_t dilation = 1) {
  const int64_t slack = size + 2 * padding - dilation * (kernel - 1) - 1;
  return slack < 0 ? 0 : slack / stride + 1;
}

// The size of the image in which the same window has `positions` positions: (positions - 1) stride
// - 2 padding + kernel, but at most 2^62.
inline int64_t WindowedSize(int64_t positions, int64_t kernel, int64_t stride, int64_t padding) {
  constexpr int64_t kMax = int64_t{1} << 62;
  const int64_t reach = std::min(SaturatingProduct(positions - 1, stride), kMax);
  return std::min(reach + kernel - 2 * padding, kMax);
}

}  // namespace neap
