// The extents that a Resize by scales makes in ONNX: products in fp32, rounded down. neap's, which
// are PyTorch's, are products in fp64, and there the same scale may make one element less or more:
//
//   100 * 0.29    29 in fp32    28 in fp64
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "neap/core/base/tensor.h"
#include "neap/layers/resize/resample_axes.h"
#include "neap/layers/resize/resize.h"

namespace neap::nets {

// `resize` has scales.
inline std::vector<int64_t> OnnxExtents(const neap::Resize& resize, const Shape& x) {
  std::vector<int64_t> extents;
  for (int i = 0; i < x.spatial_axes(); ++i) {
    const auto scale = static_cast<float>(*resize.ScaleOf(i));
    const float product = std::min(static_cast<float>(x[2 + i]) * scale, 0x1p62F);
    extents.push_back(static_cast<int64_t>(std::floor(product)));
  }
  return extents;
}
inline std::vector<int64_t> NeapExtents(const neap::Resize& resize, const Shape& x) {
  std::vector<int64_t> extents;
  for (int i = 0; i < x.spatial_axes(); ++i)
    extents.push_back(ScaledExtent(x[2 + i], *resize.ScaleOf(i)));
  return extents;
}

// Whether an extent times its scale is no whole number. If none is rounded, positions that follow
// from scales are those that follow from extents.
inline bool IsRounded(const neap::Resize& resize, const Shape& x, int axis) {
  if (resize.scales.empty()) return false;
  const Fraction scale = FractionOf(*resize.ScaleOf(axis));
  return x[2 + axis] * scale.over % scale.under != 0;
}
inline bool RoundsAny(const neap::Resize& resize, const Shape& x) {
  for (int i = 0; i < x.spatial_axes(); ++i) {
    if (IsRounded(resize, x, i)) return true;
  }
  return false;
}

}  // namespace neap::nets
