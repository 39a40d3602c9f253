// The axes of tensors, as the nodes that change or name them state them: in attributes or inputs,
// depending on the opset, and from either end.
//
//   ASSIGN_OR_RETURN(const std::vector<int64_t> dims, AxesAfter(node, x.dims()));
//
// *Errors*: INVALID_ARGUMENT for what is out of range or fits no tensor; those of NodeReader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/nets/onnx/node_reader.h"

namespace neap::nets {

// UNIMPLEMENTED if the images are vectors in the ONNX graph.
absl::Status CheckIsImage(const ImageValue& x);

// The axis from 0.
absl::StatusOr<size_t> CheckedAxis(int64_t axis, int64_t rank);
// The same, of a list of different axes, sorted.
absl::StatusOr<std::vector<int64_t>> CheckedAxes(const std::vector<int64_t>& axes, int64_t rank);

// Whether the operator only gives the elements of its first input other axes: Flatten, Reshape,
// Squeeze and Unsqueeze.
bool ChangesAxes(std::string_view op);
// The extents after such a node.
absl::StatusOr<std::vector<int64_t>> AxesAfter(NodeReader& node, const std::vector<int64_t>& dims);

// The axes that a node reduces, sorted. Without any it reduces all, or none if its attribute
// `noop_with_empty_axes` says so.
absl::StatusOr<std::vector<int64_t>> ReducedAxes(NodeReader& node, int64_t rank);

// The one axis that a Softmax normalises. Before opset 13 all axes from the stated one on are one.
// Errors: UNIMPLEMENTED if these are several, or N.
absl::StatusOr<size_t> SoftmaxAxis(NodeReader& node, int64_t opset,
                                   const std::vector<int64_t>& dims);

// The order in which a Transpose node puts the axes.
absl::StatusOr<std::vector<int64_t>> ReadOrder(NodeReader& node, int64_t rank);

// The elements from `start` to `end` of `extent` by steps of 1, where negative positions count from
// the end, as Shape and Slice have them: {first, last + 1}, clamped.
std::pair<int64_t, int64_t> ClampedRange(int64_t start, int64_t end, int64_t extent);

// The result of a Shape node for a tensor with these extents.
Constant ShapeOf(NodeReader& node, const std::vector<int64_t>& dims);

// The arguments of a Slice node, in the order in which it states the axes.
struct Slices {
  std::vector<int64_t> starts, ends, axes, steps;
};
absl::StatusOr<Slices> ReadSlices(NodeReader& node, int64_t rank);

// The extents of the parts that a Split node makes of an axis of `extent`.
absl::StatusOr<std::vector<int64_t>> ReadParts(NodeReader& node, int64_t extent);

}  // namespace neap::nets
