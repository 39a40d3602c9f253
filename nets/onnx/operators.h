// ONNX's operators: what layer each of them is.
//
// An operator reads its node and adds a layer to the network, or a value that is another layer's
// output. *Errors*: UNIMPLEMENTED, without the node's name, for what neap's layers cannot do;
// INVALID_ARGUMENT for shapes that do not fit.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/nets/onnx/network_builder.h"
#include "neap/nets/onnx/node_reader.h"
#include "neap/nets/onnx/refusal_report.h"

namespace neap::nets {

// Adds what the node computes to the network. A refused node computes a guess, or what is
// unsupported. Errors: those of reading files.
absl::StatusOr<std::optional<Refusal>> AddNode(NodeReader& node, NetworkBuilder& network);

namespace operators {

using Operator = absl::Status(NodeReader& node, NetworkBuilder& network);

// nets/onnx/window_operators.cc
Operator Conv, ConvTranspose, MaxPool, AveragePool, GlobalAveragePool, Pad;
// nets/onnx/channel_operators.cc
Operator Gemm, MatMul, BatchNormalization, Lrn;
// nets/onnx/norms/norm_operators.cc
Operator GroupNormalization, InstanceNormalization, LayerNormalization, StepOfNorm;
// nets/onnx/norms/square_norms.cc
Operator MeanOfSquares, ReduceL2;
// nets/onnx/element_operators.cc
Operator Activation, LeakyRelu, Elu, Gelu, Clip, Dropout, Softmax;
// nets/onnx/axes/part_operators.cc
Operator Slice, Split, GatherOne;
// nets/onnx/axes/concat_operators.cc
Operator Concat;
// nets/onnx/axes/repeat_operators.cc
Operator Tile, Expand;
// nets/onnx/tokens/token_operators.cc
Operator Gather;
// nets/onnx/tokens/attention_operators.cc. A StepOfAttention reads an AttentionPart, and
// AttentionScores are the product of two layers' outputs.
Operator Attention, AttentionScores, StepOfAttention;
// Whether the node adds a constant for each channel and position, and its layer, a
// PositionEmbedding of the constant of that name.
bool AddsPositions(const NodeReader& node, const ImageValue& x, const Constant& constant);
absl::Status AddPositions(const NodeReader& node, NetworkBuilder& network, const ImageValue& x,
                          Constant constant, const std::string& name);
// nets/onnx/affine_operators.cc
Operator Sum, Sub, Mul, Div, Neg, HardSigmoid, PRelu;
// Adds the layer of x and a constant of any axes of it, input `constant` of a node that multiplies
// them, and returns what it computes.
absl::StatusOr<ImageValue> AddMultiplied(NodeReader& node, NetworkBuilder& network,
                                         const ImageValue& x, int constant);
// nets/onnx/formula_operators.cc. A Step reads a formula (NodeReader::ReadsFormula), or twice the
// same value.
Operator Step, Erf, Pow;
// The value of a formula without functions as the layers of a polynomial, called after the node
// that reads it. Errors: UNIMPLEMENTED, "is ...", for any other formula.
absl::StatusOr<ImageValue> AsLayers(const onnx_schema::Node& node, NetworkBuilder& network,
                                    const ImageValue& x);
// nets/onnx/shape_operators.cc
Operator ChangeAxes, Transpose, ReduceMean, Same, Shape;
// nets/onnx/resize_operators.cc
Operator Resize, DepthToSpace, SpaceToDepth;

}  // namespace operators
}  // namespace neap::nets
