// Activations as nodes of an ONNX graph.
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/activation.h"
#include "neap/layers/scale_shift.h"
#include "neap/nets/onnx/node_attributes.h"
#include "neap/nets/onnx/node_writer.h"

namespace neap::nets {
namespace {

using onnx_schema::Node;

// ONNX's name of a layer that has no fields.
std::string_view PlainOperator(const Layer& layer) {
  if (layer.As<Relu>() != nullptr) return "Relu";
  if (layer.As<Sigmoid>() != nullptr) return "Sigmoid";
  if (layer.As<Tanh>() != nullptr) return "Tanh";
  if (layer.As<HardSwish>() != nullptr) return "HardSwish";
  return "";
}

// One of several nodes that compute a layer together, because ONNX has no operator for it, or only
// in later opsets. The node is called like the layer, followed by the suffix, which the last one
// lacks.
struct NodePart {
  std::string_view suffix, op;
  // A number, the suffix of a part before, or "x".
  std::vector<std::variant<float, std::string_view>> inputs;
};
using NodeParts = std::vector<NodePart>;

constexpr std::string_view kX = "x";

NodeParts SiluParts() { return {{".sigmoid", "Sigmoid", {kX}}, {"", "Mul", {kX, ".sigmoid"}}}; }

NodeParts MishParts() {
  return {{".softplus", "Softplus", {kX}},
          {".tanh", "Tanh", {".softplus"}},
          {"", "Mul", {kX, ".tanh"}}};
}

NodeParts SoftplusParts(float beta) {
  if (beta == 1) return {{"", "Softplus", {kX}}};
  return {{".scaled", "Mul", {kX, beta}},
          {".softplus", "Softplus", {".scaled"}},
          {"", "Div", {".softplus", beta}}};
}

// As exporters of PyTorch write it.
NodeParts GeluParts(Gelu::Approximation approximation) {
  NodeParts parts = {{".scaled", "Div", {kX, std::sqrt(2.0F)}}, {".gate", "Erf", {".scaled"}}};
  if (approximation == Gelu::Approximation::kTanh) {
    const auto scale = static_cast<float>(std::sqrt(2 / std::acos(-1.0)));
    parts = {{".square", "Mul", {kX, kX}},           {".cube", "Mul", {kX, ".square"}},
             {".bent", "Mul", {".cube", 0.044715F}}, {".inner", "Add", {kX, ".bent"}},
             {".scaled", "Mul", {".inner", scale}},  {".gate", "Tanh", {".scaled"}}};
  }
  parts.push_back({".sum", "Add", {".gate", 1.0F}});
  parts.push_back({".product", "Mul", {kX, ".sum"}});
  parts.push_back({"", "Mul", {".product", 0.5F}});
  return parts;
}

// The parts of a layer that is written as several nodes, or as one without attributes; none for
// another layer.
NodeParts PartsOf(const Layer& layer) {
  constexpr float kThreshold = Softplus{}.threshold;  // above it y = x, up to the rounding to fp32
  if (layer.As<Silu>() != nullptr) return SiluParts();
  if (layer.As<Mish>() != nullptr) return MishParts();
  if (const auto* const gelu = layer.As<Gelu>()) return GeluParts(gelu->approximation);
  const auto* const softplus = layer.As<Softplus>();
  const bool has_operator = softplus != nullptr && softplus->threshold == kThreshold;
  return has_operator ? SoftplusParts(softplus->beta) : NodeParts();
}

}  // namespace

// A product, then a sum, of which one that changes nothing is left out.
absl::Status NodeWriter::WriteScaleShift(const ResolvedLayer& layer, const ScaleShift& linear) {
  const bool multiplies = linear.scale != 1 || linear.learns_scale;
  const bool adds = linear.shift != 0 || linear.learns_shift || !multiplies;
  const Shape per_channel = PerChannelDims(layer.spec.output.shape);
  Node* node =
      &AddNode(layer, multiplies ? "Mul" : "Add", linear.learns() ? Axes::kImages : Axes::kEither);
  if (linear.learns_scale) {
    RETURN_IF_ERROR(AddReshaped(layer, 0, per_channel, *node));
  } else if (multiplies) {
    AddScalar("factor", linear.scale, *node);
  }
  if (!adds) return absl::OkStatus();
  if (multiplies) node = &AddBehind(layer, *node, ".scale", "Add");
  if (linear.learns_shift)
    return AddReshaped(layer, static_cast<size_t>(linear.shift_param()), per_channel, *node);
  AddScalar("shift", linear.shift, *node);
  return absl::OkStatus();
}

bool NodeWriter::WriteParts(const ResolvedLayer& layer) {
  const NodeParts parts = PartsOf(layer.layer);
  for (const NodePart& part : parts) {
    Node& node = AddNode(layer, part.op, Axes::kEither);
    const std::string x = node.input(0);
    node.set_name(absl::StrCat(layer.name, std::string(part.suffix)));
    node.set_output(0, node.name());
    node.clear_input();
    for (const auto& input : part.inputs) {
      if (const auto* const number = std::get_if<float>(&input)) {
        AddScalar("number", *number, node);
      } else {
        const std::string name(std::get<std::string_view>(input));
        node.add_input(name == kX ? x : absl::StrCat(layer.name, name));
      }
    }
  }
  return !parts.empty();
}

bool NodeWriter::WriteActivation(const ResolvedLayer& layer) {
  if (const std::string_view op = PlainOperator(layer.layer); !op.empty()) {
    AddNode(layer, op, Axes::kEither);
    return true;
  }
  if (const auto* const leaky = layer.layer.As<LeakyRelu>()) {
    SetFloat(AddNode(layer, "LeakyRelu", Axes::kEither), "alpha", leaky->negative_slope);
    return true;
  }
  if (const auto* const elu = layer.layer.As<Elu>()) {
    SetFloat(AddNode(layer, "Elu", Axes::kEither), "alpha", elu->alpha);
    return true;
  }
  if (const auto* const clip = layer.layer.As<Clip>()) {
    Node& node = AddNode(layer, "Clip", Axes::kEither);
    AddScalar("min", clip->low, node);
    AddScalar("max", clip->high, node);
    return true;
  }
  if (layer.layer.As<HardSigmoid>() != nullptr) {
    Node& node = AddNode(layer, "HardSigmoid", Axes::kEither);
    SetFloat(node, "alpha", 1.0F / 6);
    SetFloat(node, "beta", 0.5F);
    return true;
  }
  return WriteParts(layer);
}

// The slopes of an image's channels are a vector, which gets the axes of an image.
absl::Status NodeWriter::WritePrelu(const ResolvedLayer& layer) {
  Node& node = AddNode(layer, "PRelu", Axes::kEither);
  RETURN_IF_ERROR(AddWeights(layer, node));
  const int64_t slopes = layer.spec.params[0].tensor.elements();
  if (slopes == 1 || IsFlat(layer.id)) return absl::OkStatus();
  ReshapeLast(absl::StrCat(layer.name, ".slopes"), PerChannelDims(layer.spec.output.shape), node);
  return absl::OkStatus();
}

}  // namespace neap::nets
