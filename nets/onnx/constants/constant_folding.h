// Nodes of an ONNX graph that compute constants from constants, as exporters state the shape of a
// reshape, the sides of a padding, and weights in another order.
//
//   if (node.op() == "Constant" || node.ReadsConstants()) RETURN_IF_ERROR(Fold(node, network));
//
// Tensors of the file whose elements only get other axes are not read (Stored). How many elements
// constants may have in all is bounded by what the file holds (NetworkBuilder::CountConstant).
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "neap/nets/onnx/node_reader.h"

namespace neap::nets {

// Whether the operator is computed, of constants.
bool CanFold(std::string_view op);

// Sets the node's outputs. Errors: UNIMPLEMENTED for an operator that is not computed, or not on
// such constants; INVALID_ARGUMENT for an index out of range and extents that do not fit.
absl::Status Fold(NodeReader& node, NetworkBuilder& network);

}  // namespace neap::nets
