// Layers that give a value the axes that an operator needs, where the layer before it has others.
//
//   ASSIGN_OR_RETURN(const ImageValue x, AsImage(node.proto(), network, tokens));
//
// A layer is added only if elements move, or if the extents differ: a Permute, a Reshape, or the
// shuffle of channels or pixels that does the same. It is called after the Transpose that asked for
// it, or else after the node that needs it. *Errors*: UNIMPLEMENTED if no layers of neap do it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/nets/onnx/axes/arrangement.h"
#include "neap/nets/onnx/network_builder.h"
#include "onnx_schema.pb.h"

namespace neap::nets {

// The value with a layer that has one axis for each of `wanted`, C first. Together they have all
// axes of the value but N.
absl::StatusOr<ImageValue> WithAxes(const onnx_schema::Node& node, NetworkBuilder& network,
                                    const ImageValue& x, const std::vector<Factors>& wanted);
// The value as the layer's output is, whatever axes the graph gives it.
ImageValue Plain(const ImageValue& x);
// With a layer that has the axes of the tensor, of which the first is N: {N, C, H, W}, say.
absl::StatusOr<ImageValue> AsImage(const onnx_schema::Node& node, NetworkBuilder& network,
                                   const ImageValue& x);
// With a layer whose channels are that axis, and whose one spatial axis is all others but N.
absl::StatusOr<ImageValue> WithChannels(const onnx_schema::Node& node, NetworkBuilder& network,
                                        const ImageValue& x, size_t axis);
// With a layer whose elements are numbered as those of the tensor, of which the first axis is N.
absl::StatusOr<ImageValue> InOrder(const onnx_schema::Node& node, NetworkBuilder& network,
                                   const ImageValue& x);
// All of them with the same axes, as images, with the channels last, or as vectors, or else of
// layers with the same channels.
absl::StatusOr<std::vector<ImageValue>> WithSameAxes(const onnx_schema::Node& node,
                                                     NetworkBuilder& network,
                                                     std::vector<ImageValue> images);

// How the output of a layer lies in the graph, where that of its first input lies as `x`.
absl::StatusOr<Arrangement> ArrangementBehind(const ImageValue& x, const NetworkBuilder& network,
                                              const Shape& output);

// A constant with the extents of the tensor behind N, in the order of the layer's axes behind N.
Constant InLayersOrder(const Constant& constant, const Arrangement& arrangement);

}  // namespace neap::nets
