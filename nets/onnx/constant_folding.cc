#include "neap/nets/onnx/constant_folding.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"

namespace neap::nets {
namespace {

constexpr size_t kMostValues = 256;  // of a result

absl::Status NotComputed(const std::string& what) {
  return absl::UnimplementedError(absl::StrCat("a constant is computed ", what));
}

absl::StatusOr<Value> FromAttribute(NodeReader& node) {
  if (const onnx_schema::Tensor* const tensor = node.TensorAttribute("value"))
    return Stored{.tensor = tensor};
  if (node.HasAttribute("value_int"))
    return Constant{.values = {static_cast<double>(node.Int("value_int", 0))}};
  if (node.HasAttribute("value_float"))
    return Constant{.values = {node.Float("value_float", 0)}, .is_integer = false};
  const std::vector<int64_t> ints = node.Ints("value_ints", {});
  if (ints.size() > kMostValues) return NotComputed("from a long list");
  return Constant{.dims = {static_cast<int64_t>(ints.size())},
                  .values = {ints.begin(), ints.end()}};
}

absl::StatusOr<Constant> Gather(NodeReader& node) {
  ASSIGN_OR_RETURN(const Constant data, node.Constant(0));
  ASSIGN_OR_RETURN(const Constant indices, node.Constant(1));
  if (node.Int("axis", 0) != 0 || data.dims.size() != 1)
    return NotComputed("by a gather of other than the elements of a vector");
  Constant result = {.dims = indices.dims, .values = {}, .is_integer = data.is_integer};
  const int64_t count = data.dims[0];
  for (int64_t index : ToIntegers(indices)) {
    if (index < 0) index += count;
    if (index < 0 || index >= count) {
      return absl::InvalidArgumentError(absl::StrCat("it gathers element ", index, " of ", count));
    }
    result.values.push_back(data.values[static_cast<size_t>(index)]);
  }
  return result;
}

absl::StatusOr<Constant> Concat(NodeReader& node) {
  Constant result = {.dims = {0}, .values = {}, .is_integer = true};
  node.Int("axis", 0);
  for (int i = 0; i < node.input_count(); ++i) {
    ASSIGN_OR_RETURN(const Constant part, node.Constant(i));
    if (part.dims.size() != 1) return NotComputed("by a concatenation of other than vectors");
    result.values.insert(result.values.end(), part.values.begin(), part.values.end());
    if (result.values.size() > kMostValues) return NotComputed("with too many values");
    result.is_integer = result.is_integer && part.is_integer;
  }
  result.dims = {static_cast<int64_t>(result.values.size())};
  return result;
}

// Between a scalar and a vector with one element.
absl::StatusOr<Constant> ChangeAxes(NodeReader& node) {
  ASSIGN_OR_RETURN(Constant result, node.Constant(0));
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, node.IntsOrInput("axes", 1));
  if (result.values.size() != 1 || axes.size() > 4) return NotComputed("with more axes");
  const size_t rank = result.dims.size();
  const size_t removed = axes.empty() ? rank : std::min(rank, axes.size());
  result.dims.assign(node.op() == "Squeeze" ? rank - removed : rank + axes.size(), 1);
  return result;
}

absl::StatusOr<Constant> Slice(NodeReader& node) {
  ASSIGN_OR_RETURN(Constant result, node.Constant(0));
  ASSIGN_OR_RETURN(const double start, node.Scalar(1, 0));
  ASSIGN_OR_RETURN(const double end, node.Scalar(2, 0));
  ASSIGN_OR_RETURN(const double step, node.Scalar(4, 1));
  if (result.dims.size() != 1 || step != 1)
    return NotComputed("by a slice of other than consecutive elements of a vector");
  const auto [first, last] = ClampedRange(ToInteger(start), ToInteger(end), result.dims[0]);
  result.values = {result.values.begin() + first, result.values.begin() + last};
  result.dims = {last - first};
  return result;
}

absl::StatusOr<Constant> Cast(NodeReader& node) {
  ASSIGN_OR_RETURN(Constant result, node.Constant(0));
  result.is_integer = IsInteger(node.Int("to", 0));
  if (result.is_integer) {
    for (double& value : result.values) value = std::trunc(value);
  }
  return result;
}

absl::StatusOr<double> Computed(std::string_view op, double a, double b, bool is_integer) {
  if (op == "Add") return a + b;
  if (op == "Sub") return a - b;
  if (op == "Mul") return a * b;
  if (!is_integer) return a / b;
  if (b == 0) return absl::InvalidArgumentError("it divides by 0");
  return std::trunc(a / b);
}

absl::StatusOr<Constant> Arithmetic(NodeReader& node) {
  ASSIGN_OR_RETURN(const Constant a, node.Constant(0));
  ASSIGN_OR_RETURN(const Constant b, node.Constant(1));
  const bool is_scalar = b.values.size() == 1 && b.dims.size() <= a.dims.size();
  if (!is_scalar && a.dims != b.dims) return NotComputed("from tensors of different shapes");
  Constant result = a;
  result.is_integer = a.is_integer && b.is_integer;
  for (size_t i = 0; i < a.values.size(); ++i) {
    ASSIGN_OR_RETURN(result.values[i], Computed(node.op(), a.values[i], b.values[is_scalar ? 0 : i],
                                                result.is_integer));
  }
  return result;
}

absl::StatusOr<Value> Transpose(NodeReader& node) {
  ASSIGN_OR_RETURN(const Weight matrix, node.Tensor(0, ""));
  Stored stored = matrix.stored;
  if (stored.tensor->dims_size() != 2) return NotComputed("by transposing other than a matrix");
  if (node.Ints("perm", {1, 0}) == std::vector<int64_t>{1, 0})
    stored.is_transposed = !stored.is_transposed;
  return stored;
}

struct Folded {
  std::string_view op;
  absl::StatusOr<Constant> (*compute)(NodeReader& node);
};
constexpr Folded kFolded[] = {
    {"Gather", Gather},  {"Concat", Concat},  {"Unsqueeze", ChangeAxes}, {"Squeeze", ChangeAxes},
    {"Slice", Slice},    {"Cast", Cast},      {"Add", Arithmetic},       {"Sub", Arithmetic},
    {"Mul", Arithmetic}, {"Div", Arithmetic},
};

}  // namespace

std::pair<int64_t, int64_t> ClampedRange(int64_t start, int64_t end, int64_t extent) {
  const int64_t first = std::clamp<int64_t>(start < 0 ? start + extent : start, 0, extent);
  const int64_t last = std::clamp<int64_t>(end < 0 ? end + extent : end, first, extent);
  return {first, last};
}

absl::StatusOr<Value> Fold(NodeReader& node) {
  if (node.op() == "Constant") return FromAttribute(node);
  if (node.op() == "Transpose") return Transpose(node);
  if (node.op() == "Identity") {
    if (const std::optional<Stored> stored = node.IfStored(0)) return Value(*stored);
    return node.Constant(0);
  }
  const auto* const folded =
      std::find_if(std::begin(kFolded), std::end(kFolded),
                   [&](const Folded& known) { return known.op == node.op(); });
  if (folded == std::end(kFolded)) return NotComputed("by this operator");
  ASSIGN_OR_RETURN(Constant result, folded->compute(node));
  return Value(std::move(result));
}

}  // namespace neap::nets
