// Nodes that compute a step of a formula (nets/onnx/formula.h), or end it.
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/multiply.h"
#include "neap/layers/scale_shift.h"
#include "neap/nets/onnx/axes/rearrange.h"
#include "neap/nets/onnx/formula.h"
#include "neap/nets/onnx/operators.h"

namespace neap::nets::operators {
namespace {

using Function = Formula::Function;

// The value as a formula of x, the output of a layer; absent if it is none.
std::optional<Formula> FormulaOf(const ImageValue& value, const ImageValue& x,
                                 const NetworkBuilder& network) {
  if (value.arrangement != x.arrangement) return std::nullopt;
  if (value.layer == x.layer) return value.formula.value_or(Formula::Linear(1, 0));
  const GraphLayer& layer = network.LayerOf(value);
  const auto* const linear = layer.layer.As<ScaleShift>();
  if (linear == nullptr || linear->learns() || value.formula.has_value() ||
      layer.inputs[0] != x.layer)
    return std::nullopt;
  return Formula::Linear(static_cast<double>(linear->scale), static_cast<double>(linear->shift));
}

// The same for an input of the node, which may be a number, too.
absl::StatusOr<std::optional<Formula>> OperandOf(const NodeReader& node, int i, const ImageValue& x,
                                                 const NetworkBuilder& network) {
  if (node.IsConstant(i)) {
    ASSIGN_OR_RETURN(const Constant constant, node.Constant(i));
    if (constant.values.size() != 1) return std::nullopt;
    return Formula::Linear(0, constant.values[0]);
  }
  ASSIGN_OR_RETURN(const ImageValue value, node.FormulaImage(i));
  return FormulaOf(value, x, network);
}

std::optional<Formula> Combined(std::string_view op, const Formula& a, const Formula& b) {
  if (op == "Add" || op == "Sum") return Sum(a, b);
  if (op == "Sub") return Sum(a, *Product(b, Formula::Linear(0, -1)));
  if (op == "Mul") return Product(a, b);
  const std::optional<double> divisor = b.AsNumber();
  if (op != "Div" || !divisor.has_value()) return std::nullopt;
  return Product(a, Formula::Linear(0, 1 / *divisor));
}

// What the node computes of its operands.
std::optional<Formula> Combined(std::string_view op, const std::vector<Formula>& operands) {
  std::optional<Formula> result = operands[0];
  if (op == "Tanh") return Applied(Function::kTanh, *result);
  if (op == "Erf") return Applied(Function::kErf, *result);
  if (op == "Neg") return Product(*result, Formula::Linear(0, -1));
  for (size_t i = 1; i < operands.size() && result.has_value(); ++i)
    result = Combined(op, *result, operands[i]);
  return result;
}

absl::Status NoStep() {
  return absl::UnimplementedError("it is no step of a formula that neap has, such as GELU");
}

// Adds the layer that the formula of x is, or keeps it for the nodes behind.
absl::Status SetFormula(NodeReader& node, NetworkBuilder& network, ImageValue x,
                        const std::optional<Formula>& formula) {
  if (!formula.has_value()) return NoStep();
  x.formula.reset();
  if (const std::optional<neap::Gelu> gelu = GeluOf(*formula, network.rounding()))
    return network.AddLayer(node.proto(), *gelu, {std::move(x)});
  x.formula = formula;
  network.Set(node.proto().output(0), std::move(x));
  return absl::OkStatus();
}

// The node's layer of what layers compute of the polynomials that it reads beside other values.
absl::Status InLayers(NodeReader& node, NetworkBuilder& network) {
  if (!node.ReadsFormula()) return NoStep();
  for (int i = 0; i < node.input_count(); ++i) {
    const ImageValue* const value = node.IfImage(i);
    if (value == nullptr || !value->formula.has_value()) continue;
    if (value->formula->function != Function::kNone) return NoStep();
    RETURN_IF_ERROR(node.ImageOfAnyLayout(i).status());
  }
  const std::string_view op = node.op();
  if (op == "Add" || op == "Sum") return Sum(node, network);
  if (op == "Sub") return Sub(node, network);
  if (op == "Mul") return Mul(node, network);
  return op == "Div" ? Div(node, network) : NoStep();
}

// The output of the layer before `value` if that only multiplies it by a number and adds one.
ImageValue BeforeScaleShift(const ImageValue& value, const NetworkBuilder& network) {
  const GraphLayer& layer = network.LayerOf(value);
  ImageValue before = value;
  const auto* const linear = layer.layer.As<ScaleShift>();
  if (linear != nullptr && !linear->learns()) before.layer = layer.inputs[0];
  return before;
}

}  // namespace

absl::Status Step(NodeReader& node, NetworkBuilder& network) {
  std::optional<ImageValue> x;
  for (int i = 0; i < node.input_count(); ++i) {
    if (node.IsConstant(i)) continue;
    ASSIGN_OR_RETURN(ImageValue value, node.FormulaImage(i));
    if (!x.has_value() || value.formula.has_value()) x = std::move(value);
  }
  std::vector<Formula> operands;
  for (int i = 0; i < node.input_count(); ++i) {
    ASSIGN_OR_RETURN(const std::optional<Formula> operand, OperandOf(node, i, *x, network));
    if (!operand.has_value()) return InLayers(node, network);
    operands.push_back(*operand);
  }
  return SetFormula(node, network, *std::move(x), Combined(node.op(), operands));
}

absl::Status Erf(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const ImageValue value, node.ImageOfAnyLayout(0));
  const ImageValue x = BeforeScaleShift(value, network);
  return SetFormula(node, network, x, Combined(node.op(), {*FormulaOf(value, x, network)}));
}

absl::Status Pow(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const ImageValue x, node.ImageOfAnyLayout(0));
  ASSIGN_OR_RETURN(const double exponent, node.Scalar(1, 1));
  if (exponent != 2 && exponent != 3) {
    return absl::UnimplementedError(
        absl::StrCat("its exponent is ", exponent, "; 2 and 3 are read"));
  }
  const std::vector<Formula> factors(static_cast<size_t>(exponent), Formula::Linear(1, 0));
  return SetFormula(node, network, x, Combined("Mul", factors));
}

absl::StatusOr<ImageValue> AsLayers(const onnx_schema::Node& node, NetworkBuilder& network,
                                    const ImageValue& x) {
  const Formula::Polynomial& term = x.formula->term;
  if (x.formula->function != Function::kNone) {
    return absl::UnimplementedError(
        "is a step of a formula, which neap only has as a whole, as in GELU");
  }
  size_t degree = term.size() - 1;
  while (degree > 1 && term[degree] == 0) --degree;
  const ImageValue plain = Plain(x);
  const auto linear = [&](const ImageValue& y, double scale, double shift,
                          const std::string& suffix) -> absl::StatusOr<ImageValue> {
    const ScaleShift layer = {.scale = static_cast<float>(scale),
                              .shift = static_cast<float>(shift)};
    return network.AddExtra(node, {}, suffix, layer, {y});
  };
  ASSIGN_OR_RETURN(ImageValue value, linear(plain, term[degree], term[degree - 1], "_linear"));
  for (size_t i = degree - 1; i-- > 0;) {
    ASSIGN_OR_RETURN(value, network.AddExtra(node, {}, "_power", Multiply{}, {value, plain}));
    if (term[i] == 0) continue;
    ASSIGN_OR_RETURN(value, linear(value, 1, term[i], "_shift"));
  }
  value.arrangement = x.arrangement;
  value.transpose = x.transpose;
  return value;
}

}  // namespace neap::nets::operators
