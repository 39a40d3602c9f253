// The axes of queries, keys and values in an ONNX graph: {N, heads, positions, dimensions}, where
// those before the last two may be several, or be joined with N.
#pragma once

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/nets/onnx/axes/arrangement.h"
#include "neap/nets/onnx/network_builder.h"
#include "onnx_schema.pb.h"

namespace neap::nets {

// The error for a product of two layers' outputs which is not part of an attention: UNIMPLEMENTED.
absl::Status NoAttention();

// The heads, positions and dimensions of a query, key or value in the graph, without N.
struct HeadAxes {
  Factors heads, positions, dims;
  Factors channels() const;  // the heads, with the dimensions of each
};

// Absent unless the tensor has N before the heads, and then positions and dimensions.
std::optional<HeadAxes> HeadAxesOf(const ImageValue& x);

// x with all heads as its channels. Where the positions are those of the layer, they stay so.
absl::StatusOr<ImageValue> WithHeads(const onnx_schema::Node& node, NetworkBuilder& network,
                                     const ImageValue& x);

}  // namespace neap::nets
