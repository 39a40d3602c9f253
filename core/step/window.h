// The sliding window that convolution and pooling share.
#pragma once

#include <cstdint>

namespace neap {

// Height and width; `Extent2d e = 3` means 3x3.
struct Extent2d {
  int64_t h = 0;
  int64_t w = 0;
  constexpr Extent2d(int64_t both) : h(both), w(both) {}  // NOLINT(google-explicit-constructor)
  constexpr Extent2d(int64_t height, int64_t width) : h(height), w(width) {}
  friend constexpr bool operator==(Extent2d, Extent2d) = default;
};

// Number of window positions along one axis: floor((size + 2 padding - dilation (kernel - 1) - 1) /
// stride) + 1. 0 or less when the window does not fit.
constexpr int64_t WindowPositions(int64_t size, int64_t kernel, int64_t stride, int64_t padding,
                                  int64_t dilation = 1) {
  const int64_t slack = size + 2 * padding - dilation * (kernel - 1) - 1;
  return slack < 0 ? 0 : slack / stride + 1;
}

}  // namespace neap
