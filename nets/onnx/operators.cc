#include "neap/nets/onnx/operators.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "neap/core/base/status_macros.h"
#include "neap/nets/onnx/constants/constant_folding.h"

namespace neap::nets {
namespace operators {
namespace {

struct OperatorEntry {
  std::string_view op;
  Operator* add;
  // Whether it may refuse extents that another operator computes.
  bool depends_on_shape = false;
};

constexpr OperatorEntry kOperators[] = {
    {"Add", Sum, true},
    {"Attention", Attention, true},
    {"AveragePool", AveragePool},
    {"BatchNormalization", BatchNormalization},
    {"Cast", Same},
    {"Clip", Clip},
    {"Concat", Concat, true},
    {"Conv", Conv},
    {"ConvTranspose", ConvTranspose},
    {"DepthToSpace", DepthToSpace},
    {"Div", Div, true},
    {"Dropout", Dropout},
    {"Elu", Elu},
    {"Erf", Erf},
    {"Expand", Expand, true},
    {"Flatten", ChangeAxes, true},
    {"Gather", Gather},
    {"Gelu", Gelu},
    {"Gemm", Gemm, true},
    {"GlobalAveragePool", GlobalAveragePool},
    {"GroupNormalization", GroupNormalization},
    {"HardSigmoid", HardSigmoid},
    {"HardSwish", Activation},
    {"Identity", Same},
    {"InstanceNormalization", InstanceNormalization},
    {"LRN", Lrn},
    {"LayerNormalization", LayerNormalization, true},
    {"LeakyRelu", LeakyRelu},
    {"LogSoftmax", Softmax, true},
    {"MatMul", MatMul, true},
    {"MaxPool", MaxPool},
    {"Mish", Activation},
    {"Mul", Mul, true},
    {"Neg", Neg},
    {"PRelu", PRelu, true},
    {"Pad", Pad},
    {"Pow", Pow},
    {"ReduceMean", ReduceMean, true},
    {"ReduceL2", ReduceL2, true},
    {"Relu", Activation},
    {"Reshape", ChangeAxes, true},
    {"Resize", Resize},
    {"Shape", Shape},
    {"Sigmoid", Activation},
    {"Slice", Slice, true},
    {"Softmax", Softmax, true},
    {"Softplus", Activation},
    {"SpaceToDepth", SpaceToDepth},
    {"Split", Split, true},
    {"Squeeze", ChangeAxes, true},
    {"Sub", Sub, true},
    {"Sum", Sum, true},
    {"Tanh", Activation},
    {"Tile", Tile, true},
    {"Transpose", Transpose, true},
    {"Unsqueeze", ChangeAxes, true},
    {"Upsample", Resize},
};

const OperatorEntry* FindOperator(std::string_view op) {
  const auto* const found =
      std::find_if(std::begin(kOperators), std::end(kOperators),
                   [&](const OperatorEntry& known) { return known.op == op; });
  return found == std::end(kOperators) ? nullptr : found;
}

}  // namespace
}  // namespace operators

namespace {

bool IsOfOnnx(const onnx_schema::Node& node) {
  return node.domain().empty() || node.domain() == "ai.onnx";
}

bool IsOfConstants(const NodeReader& node) {
  return node.op() == "Constant" || node.ReadsConstants();
}

bool IsStepOfNorm(const NodeReader& node) {
  for (int i = 0; i < node.input_count(); ++i) {
    if (node.IfNormPart(i) != nullptr) return true;
  }
  return false;
}

bool IsStepOfAttention(const NodeReader& node) {
  for (int i = 0; i < node.input_count(); ++i) {
    if (node.IfAttentionPart(i) != nullptr) return true;
  }
  return false;
}

absl::Status CheckAll(const NodeReader& node) {
  RETURN_IF_ERROR(node.Attributes());
  return node.Unasked();
}

absl::Status AddKnown(NodeReader& node, NetworkBuilder& network) {
  if (node.proto().output_size() == 0) return absl::InvalidArgumentError("has no output");
  if (!IsOfOnnx(node.proto()))
    return absl::UnimplementedError("the operator's domain is not ONNX's own");
  if (IsOfConstants(node)) {
    RETURN_IF_ERROR(Fold(node, network));
    return CheckAll(node);
  }
  if (IsStepOfNorm(node)) {
    RETURN_IF_ERROR(operators::StepOfNorm(node, network));
    return CheckAll(node);
  }
  if (IsStepOfAttention(node)) {
    RETURN_IF_ERROR(operators::StepOfAttention(node, network));
    return CheckAll(node);
  }
  const auto* const entry = operators::FindOperator(node.op());
  if (entry == nullptr) {
    return absl::UnimplementedError(CanFold(node.op()) ? "neap has this operator only for constants"
                                                       : "neap has no layer for this operator");
  }
  RETURN_IF_ERROR(entry->add(node, network));
  RETURN_IF_ERROR(CheckAll(node));
  if (node.op() != "Split" && node.HasSecondReader())
    return absl::UnimplementedError("its second output is used");
  return absl::OkStatus();
}

// Sets the outputs to guesses: the shapes that the file states, or that of the node's first image.
void SetGuesses(const NodeReader& node, NetworkBuilder& network) {
  const ImageValue* like = nullptr;
  for (int i = 0; i < node.input_count() && like == nullptr; ++i) like = node.IfImage(i);
  const std::optional<ImageValue> image = like == nullptr ? std::nullopt : std::optional(*like);
  for (const std::string& output : node.proto().output()) {
    const std::optional<ImageValue> stated = network.StatedShape(output);
    const std::optional<ImageValue>& guess = stated.has_value() ? stated : image;
    if (guess.has_value()) {
      network.Set(output, network.Guess(output, *guess));
    } else {
      network.Set(output, Unsupported{});
    }
  }
}

// A node that reads what has no shape is not looked at, if neap has its operator.
bool IsUnreadable(const NodeReader& node) {
  const bool is_known = operators::FindOperator(node.op()) != nullptr || CanFold(node.op());
  return node.ReadsUnsupported() && IsOfOnnx(node.proto()) && is_known;
}

}  // namespace

absl::StatusOr<std::optional<Refusal>> AddNode(NodeReader& node, NetworkBuilder& network) {
  Refusal refusal;
  if (IsUnreadable(node)) {
    refusal.is_consequence = true;
  } else {
    const bool reads_guess = node.ReadsGuess();
    const absl::Status added = AddKnown(node, network);
    if (added.ok()) return std::nullopt;
    refusal.is_invalid = absl::IsInvalidArgument(added);
    if (!refusal.is_invalid && !absl::IsUnimplemented(added)) return added;
    refusal.reason = std::string(added.message());
    const auto* const entry = operators::FindOperator(node.op());
    const bool depends_on_shape = entry != nullptr && entry->depends_on_shape;
    refusal.is_consequence = reads_guess && (refusal.is_invalid || depends_on_shape);
  }
  SetGuesses(node, network);
  return refusal;
}

}  // namespace neap::nets
