// The labels of predictions: one for each position, or more of them, of which the predictions of a
// smaller map read the nearest ones.
//
// A network with deep supervision has predictions at several resolutions, and labels at the
// highest. Position i of the predictions reads, along each axis, the label nearest to its centre,
// number i * stride + stride / 2, as torch.nn.functional.interpolate(mode="nearest-exact") does.
//
//   labels       0 1 2 3 4 5 6 7
//   predictions   0   1   2   3     of stride 2 read labels 1, 3, 5, 7
//
//   LabelGridOf({8, 5, 16, 16}, {8, 64, 32})->stride;  // {1, 4, 2}: 1, of H and of W
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "neap/core/base/tensor.h"

namespace neap {

struct LabelGrid {
  using Axes = std::array<int64_t, kMaxSpatialAxes>;  // the last one is W; 1 where there are fewer
  Axes extents = {1, 1, 1};                           // of the predictions
  Axes stride = {1, 1, 1};                            // labels of a position

  // Whether there are more labels than positions.
  bool is_finer() const { return stride != Axes{1, 1, 1}; }
  // The place of the label that a position reads. Both are counted over all images.
  int64_t LabelOf(int64_t position) const {
    int64_t label = 0, labels = 1;
    for (size_t axis = kMaxSpatialAxes; axis-- > 0; position /= extents[axis]) {
      label += (position % extents[axis] * stride[axis] + stride[axis] / 2) * labels;
      labels *= extents[axis] * stride[axis];
    }
    return label + position * labels;
  }
};

// Nothing unless `labels` is LabelShape(predictions) (core/graph/source.h), or that with a multiple
// of each spatial extent.
std::optional<LabelGrid> LabelGridOf(const Shape& predictions, const Shape& labels);

}  // namespace neap
