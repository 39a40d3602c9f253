// The vectors of a tensor along one of its axes, as they lie in memory.
#pragma once

#include <cstdint>

#include "neap/core/base/tensor.h"

namespace neap {

// {outer, length, inner} in memory: element l of vector (o, i) is at (o * length + l) * inner + i.
struct AxisRows {
  int64_t outer = 1, length = 1, inner = 1;
};

// `axis` is 1 for the channels, or that of a spatial extent.
inline AxisRows AxisRowsOf(const TensorSpec& tensor, int axis) {
  const Shape& shape = tensor.shape;
  const bool last = tensor.layout == Layout::kChannelsLast;
  AxisRows rows = {.outer = shape.n(), .length = shape[axis]};
  for (int i = 2; i < shape.rank(); ++i) {
    if (i == axis) continue;
    const bool is_before = axis == 1 ? last : i < axis;
    (is_before ? rows.outer : rows.inner) *= shape[i];
  }
  if (axis != 1) (last ? rows.inner : rows.outer) *= shape.c();
  return rows;
}

}  // namespace neap
