#include "neap/nets/onnx/operators.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

#include "neap/core/base/status_macros.h"
#include "neap/nets/onnx/constant_folding.h"

namespace neap::nets {
namespace {

using namespace operators;

struct Entry {
  std::string_view op;
  Operator* add;
};

constexpr Entry kOperators[] = {
    {"Add", Sum},
    {"AveragePool", AveragePool},
    {"BatchNormalization", BatchNormalization},
    {"Cast", Same},
    {"Clip", operators::Clip},
    {"Concat", operators::Concat},
    {"Conv", Conv},
    {"ConvTranspose", ConvTranspose},
    {"Dropout", operators::Dropout},
    {"Flatten", Flatten},
    {"Gemm", Gemm},
    {"GlobalAveragePool", operators::GlobalAveragePool},
    {"HardSigmoid", operators::HardSigmoid},
    {"HardSwish", Activation},
    {"Identity", Same},
    {"LRN", Lrn},
    {"LeakyRelu", operators::LeakyRelu},
    {"LogSoftmax", Softmax},
    {"MatMul", MatMul},
    {"MaxPool", operators::MaxPool},
    {"Mul", Mul},
    {"Pad", Pad},
    {"ReduceMean", ReduceMean},
    {"Relu", Activation},
    {"Reshape", Reshape},
    {"Shape", operators::Shape},
    {"Sigmoid", Activation},
    {"Slice", operators::Slice},
    {"Softmax", Softmax},
    {"Squeeze", Squeeze},
    {"Sum", Sum},
    {"Tanh", Activation},
    {"Unsqueeze", Unsqueeze},
};

absl::Status AddKnown(NodeReader& node, NetworkBuilder& network) {
  const onnx_schema::Node& proto = node.proto();
  if (!proto.domain().empty() && proto.domain() != "ai.onnx")
    return absl::UnimplementedError("the operator's domain is not ONNX's own");
  if (node.op() == "Constant" || node.ReadsConstants()) {
    ASSIGN_OR_RETURN(Value value, Fold(node));
    network.Set(proto.output(0), std::move(value));
    return absl::OkStatus();
  }
  const auto* const entry = std::find_if(std::begin(kOperators), std::end(kOperators),
                                         [&](const Entry& known) { return known.op == node.op(); });
  if (entry == std::end(kOperators))
    return absl::UnimplementedError("neap has no layer for this operator");
  if (node.ReadsUnsupported()) {
    network.Set(proto.output(0), Unsupported{});
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(entry->add(node, network));
  RETURN_IF_ERROR(node.Attributes());
  if (node.HasSecondReader()) return absl::UnimplementedError("its second output is used");
  return node.Unasked();
}

}  // namespace

absl::Status AddNode(NodeReader& node, NetworkBuilder& network) {
  if (node.proto().output_size() == 0) return absl::InvalidArgumentError("has no output");
  absl::Status added = AddKnown(node, network);
  if (absl::IsUnimplemented(added)) {
    for (const std::string& output : node.proto().output()) network.Set(output, Unsupported{});
  }
  return added;
}

}  // namespace neap::nets
