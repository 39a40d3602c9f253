// Constants as arrays of any number of axes: their elements in another order, in part or repeated.
//
//   View(matrix, {columns, rows}, {1, columns});  // its transpose
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "neap/nets/onnx/onnx_tensor.h"

namespace neap::nets {

using Dims = std::vector<int64_t>;

// The distance of neighbours along each axis, in elements.
Dims StridesOf(const Dims& dims);

// The array of these extents whose neighbours along axis i are strides[i] elements of `from` apart,
// and whose first element is element `offset`. All elements must be within `from`.
Constant View(const Constant& from, Dims dims, const Dims& strides, int64_t offset = 0);

// The extents of what ONNX computes of arrays with these, element by element; absent if they do not
// fit each other.
std::optional<Dims> BroadcastDims(const Dims& a, const Dims& b);
// The array with the extents `dims`, to which its own must be broadcastable.
Constant BroadcastTo(const Constant& from, const Dims& dims);

// Whether all entries along the first axis are the same, and there is at least one.
bool HasSameEntries(const Constant& array);
// The entries at these positions along an axis, which must be within it.
Constant Taken(const Constant& from, size_t axis, const Dims& positions);
// One after the other along an axis. All other extents must agree, and there must be an array.
Constant Concatenated(const std::vector<Constant>& parts, size_t axis);

}  // namespace neap::nets
