#include "neap/core/graph/label_grid.h"

#include "neap/core/graph/source.h"

namespace neap {

std::optional<LabelGrid> LabelGridOf(const Shape& predictions, const Shape& labels) {
  const Shape one_each = LabelShape(predictions);
  if (labels.rank() != one_each.rank() || labels[0] != one_each[0]) return std::nullopt;
  LabelGrid grid;
  const auto missing = static_cast<size_t>(kMaxSpatialAxes + 1 - labels.rank());
  for (int axis = 1; axis < labels.rank(); ++axis) {
    const size_t at = missing + static_cast<size_t>(axis) - 1;
    grid.extents[at] = one_each[axis];
    grid.stride[at] = labels[axis] / one_each[axis];
    if (grid.stride[at] * one_each[axis] != labels[axis]) return std::nullopt;
  }
  return grid;
}

}  // namespace neap
