// Operands with one value for each image and channel of another: {N, C, 1, 1} beside {N, C, H, W}.
#pragma once

#include <string>
#include <vector>

#include "neap/core/base/tensor.h"

namespace neap {

inline bool IsPerChannel(const Shape& whole, const Shape& shape) {
  return shape.n() == whole.n() && shape.c() == whole.c() && shape.positions() == 1;
}

// The shape of such an operand, for messages.
inline std::string PerChannelText(const Shape& whole) {
  const std::vector<int64_t> ones(whole.spatial().size(), 1);
  return SpatialShape(whole.n(), whole.c(), ones).ToString();
}

}  // namespace neap
