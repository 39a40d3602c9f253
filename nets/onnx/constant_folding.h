// Nodes of an ONNX graph that compute constants from constants, as exporters state the shape of a
// reshape and the sides of a padding: Shape, Gather, Concat, Unsqueeze and their like on a few
// integers.
//
//   if (node.op() == "Constant" || node.ReadsConstants()) {
//     ASSIGN_OR_RETURN(Value value, Fold(node));
//   }
#pragma once

#include "absl/status/statusor.h"
#include "neap/nets/onnx/node_reader.h"

namespace neap::nets {

// A Constant, or a tensor of the file, perhaps transposed. Errors: UNIMPLEMENTED for an operator
// that is not computed, or not on such constants; INVALID_ARGUMENT for an index out of range.
absl::StatusOr<Value> Fold(NodeReader& node);

// The elements from `start` to `end` of `extent` by steps of 1, where negative positions count from
// the end, as Shape and Slice have them: {first, last + 1}, clamped.
std::pair<int64_t, int64_t> ClampedRange(int64_t start, int64_t end, int64_t extent);

// What a Shape node computes of a tensor with these extents.
Constant ShapeOf(NodeReader& node, const std::vector<int64_t>& dims);

}  // namespace neap::nets
