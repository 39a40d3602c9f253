// A query that is the same for all images, as of a network that ends with an attention pooling.
#pragma once

#include "absl/status/statusor.h"
#include "neap/nets/onnx/network_builder.h"
#include "onnx_schema.pb.h"

namespace neap::nets {

// The constant {1, heads, Tq, d} as a layer's output, for a key {N, heads, Tk, d}: tokens are put
// before those of the key's layer, and cut off again. Errors: UNIMPLEMENTED for other extents.
absl::StatusOr<ImageValue> ConstantQuery(const onnx_schema::Node& node, NetworkBuilder& network,
                                         const Constant& constant, const ImageValue& key);

}  // namespace neap::nets
