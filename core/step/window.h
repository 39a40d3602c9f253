// The sliding window that convolution and pooling share.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "neap/core/base/tensor.h"

namespace neap {

// A number for each of 1 to 3 spatial axes, outermost first, or one number for every axis, however
// many there are:
//
//   Extents e = 3;         // 3 along every axis
//   e = {3, 5};            // of images: 3 along H, 5 along W
//   e = {1, 3, 3};         // of volumes: D, H and W
//   e = Extents::Of({7});  // of sequences
//
// The text of a number for every axis is that of images, "3x3", and so it equals that.
class Extents {
 public:
  constexpr Extents(int64_t every)  // NOLINT(google-explicit-constructor)
      : values_{every, every, every}, axes_(2), same_(true) {}
  constexpr Extents(int64_t h, int64_t w) : values_{h, w, 0}, axes_(2) {}
  constexpr Extents(int64_t d, int64_t h, int64_t w) : values_{d, h, w}, axes_(3) {}
  // Extents from 1 to 3 numbers.
  static Extents Of(absl::Span<const int64_t> values);

  constexpr bool is_one_number() const { return same_; }  // for every axis
  // Whether it can be that of tensors with so many spatial axes.
  constexpr bool Suits(int axes) const { return same_ || axes_ == axes; }
  // The number of axes; 2 of a number for every axis.
  constexpr int axes() const { return axes_; }
  constexpr int64_t operator[](int axis) const { return values_[static_cast<size_t>(axis)]; }
  // Along D of tensors with so many spatial axes, which it must suit, or `otherwise` if
  // they have no D.
  constexpr int64_t d(int axes, int64_t otherwise) const {
    return axes == kMaxSpatialAxes ? values_[0] : otherwise;
  }
  // Along the last two axes of images and volumes, so of at least two numbers.
  constexpr int64_t h() const { return values_[static_cast<size_t>(axes_ - 2)]; }
  constexpr int64_t w() const { return values_[static_cast<size_t>(axes_ - 1)]; }
  absl::Span<const int64_t> values() const {
    return absl::MakeConstSpan(values_.data(), static_cast<size_t>(axes_));
  }
  // A number for each of the axes. It must suit them.
  Extents Along(int axes) const {
    return Of(absl::MakeConstSpan(values_.data(), static_cast<size_t>(axes)));
  }
  bool AllAre(int64_t value) const {
    return std::count(values().begin(), values().end(), value) == axes_;
  }
  int64_t product() const;       // of values(); saturates
  std::string ToString() const;  // "3x5"

  friend constexpr bool operator==(const Extents& a, const Extents& b) {
    if (a.axes_ != b.axes_) return false;
    for (int i = 0; i < a.axes_; ++i) {
      if (a[i] != b[i]) return false;
    }
    return true;
  }

 private:
  constexpr Extents() = default;
  std::array<int64_t, kMaxSpatialAxes> values_ = {};
  int axes_ = 0;
  bool same_ = false;
};

// The most that CheckWindow() (core/step/specify.h) allows for kernel, stride, padding and
// dilation, so that no sum or product of two of them overflows.
inline constexpr int64_t kMaxWindowExtent = (int64_t{1} << 31) - 1;

// Number of window positions along one axis: floor((size + 2 padding - dilation (kernel - 1) - 1) /
// stride) + 1, or 0 if the window does not fit. For windows that CheckWindow() accepts, and sizes
// of tensors that CheckSpatialInputs() accepts.
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
