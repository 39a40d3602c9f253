// ONNX's operators: what layer each of them is.
//
// An operator reads its node and adds a layer to the network, or a value that is another layer's
// output. *Errors*: UNIMPLEMENTED, without the node's name, for what neap's layers cannot do;
// INVALID_ARGUMENT for shapes that do not fit.
#pragma once

#include "absl/status/status.h"
#include "neap/nets/onnx/network_builder.h"
#include "neap/nets/onnx/node_reader.h"

namespace neap::nets {

// Adds what the node computes to the network. A node that reads what is unsupported computes the
// same.
absl::Status AddNode(NodeReader& node, NetworkBuilder& network);

namespace operators {

using Operator = absl::Status(NodeReader& node, NetworkBuilder& network);

// nets/onnx/window_operators.cc
Operator Conv, ConvTranspose, MaxPool, AveragePool, GlobalAveragePool, Pad;
// nets/onnx/channel_operators.cc
Operator Gemm, MatMul, BatchNormalization, Lrn;
// nets/onnx/element_operators.cc
Operator Activation, LeakyRelu, Clip, HardSigmoid, Dropout, Softmax, Sum, Mul, Concat;
// nets/onnx/shape_operators.cc
Operator Flatten, Reshape, Squeeze, Unsqueeze, ReduceMean, Slice, Same, Shape;

}  // namespace operators
}  // namespace neap::nets
