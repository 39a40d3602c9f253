#include "neap/nets/onnx/constant_folding.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

// The positions of a slice along an axis of this extent, with a step of 1 or -1.
std::vector<int64_t> SlicedPositions(int64_t start, int64_t end, int64_t step, int64_t extent) {
  std::vector<int64_t> positions;
  if (step == 1) {
    const auto [first, last] = ClampedRange(start, end, extent);
    for (int64_t i = first; i < last; ++i) positions.push_back(i);
    return positions;
  }
  const int64_t first = std::clamp<int64_t>(start < 0 ? start + extent : start, -1, extent - 1);
  const int64_t last = std::clamp<int64_t>(end < 0 ? end + extent : end, -1, extent - 1);
  for (int64_t i = first; i > last; --i) positions.push_back(i);
  return positions;
}

absl::StatusOr<Constant> Slice(NodeReader& node) {
  ASSIGN_OR_RETURN(const Constant data, node.Constant(0));
  ASSIGN_OR_RETURN(const double start, node.Scalar(1, 0));
  ASSIGN_OR_RETURN(const double end, node.Scalar(2, 0));
  ASSIGN_OR_RETURN(const double axis, node.Scalar(3, 0));
  ASSIGN_OR_RETURN(const double step, node.Scalar(4, 1));
  const bool is_first_axis = axis == 0 || axis == -static_cast<double>(data.dims.size());
  if (data.dims.empty() || !is_first_axis || std::abs(step) != 1)
    return NotComputed("by a slice of other than consecutive elements of the first axis");
  const std::vector<int64_t> positions =
      SlicedPositions(ToInteger(start), ToInteger(end), ToInteger(step), data.dims[0]);
  Constant result = {.dims = data.dims, .values = {}, .is_integer = data.is_integer};
  result.dims[0] = std::ssize(positions);
  const int64_t row = data.dims[0] == 0 ? 0 : std::ssize(data.values) / data.dims[0];
  for (const int64_t position : positions) {
    const auto first = data.values.begin() + position * row;
    result.values.insert(result.values.end(), first, first + row);
  }
  return result;
}

absl::StatusOr<Constant> Shape(NodeReader& node) {
  ASSIGN_OR_RETURN(const Constant data, node.Constant(0));
  return ShapeOf(node, data.dims);
}

// The number of elements; absent if they are too many.
std::optional<size_t> CountOf(const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (const int64_t extent : dims) {
    if (extent < 0 || extent > static_cast<int64_t>(kMostValues)) return std::nullopt;
    count *= extent;
    if (count > static_cast<int64_t>(kMostValues)) return std::nullopt;
  }
  return static_cast<size_t>(count);
}

absl::StatusOr<Constant> ConstantOfShape(NodeReader& node) {
  ASSIGN_OR_RETURN(const Constant shape, node.Constant(0));
  ASSIGN_OR_RETURN(
      const Constant element,
      node.ConstantAttribute("value", {.dims = {1}, .values = {0}, .is_integer = false}));
  const std::vector<int64_t> dims = ToIntegers(shape);
  const std::optional<size_t> count = CountOf(dims);
  if (!count.has_value() || element.values.size() != 1) return NotComputed("with too many values");
  return Constant{.dims = dims,
                  .values = std::vector<double>(*count, element.values[0]),
                  .is_integer = element.is_integer};
}

absl::StatusOr<Constant> Reshape(NodeReader& node) {
  ASSIGN_OR_RETURN(Constant result, node.Constant(0));
  ASSIGN_OR_RETURN(const Constant shape, node.Constant(1));
  std::vector<int64_t> dims = ToIntegers(shape);
  const auto open = std::find(dims.begin(), dims.end(), -1);
  if (open != dims.end()) {
    *open = 1;
    const size_t known = CountOf(dims).value_or(0);
    *open = known == 0 ? 0 : static_cast<int64_t>(result.values.size() / known);
  }
  if (CountOf(dims) != result.values.size()) return NotComputed("by a reshape to other extents");
  result.dims = std::move(dims);
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
  // One that has a single element is combined with every element of the other.
  const bool a_is_single = a.values.size() == 1 && a.dims.size() <= b.dims.size();
  const bool b_is_single = b.values.size() == 1 && b.dims.size() <= a.dims.size();
  if (!a_is_single && !b_is_single && a.dims != b.dims)
    return NotComputed("from tensors of different shapes");
  Constant result = a_is_single ? b : a;
  result.is_integer = a.is_integer && b.is_integer;
  for (size_t i = 0; i < result.values.size(); ++i) {
    ASSIGN_OR_RETURN(result.values[i], Computed(node.op(), a.values[a_is_single ? 0 : i],
                                                b.values[b_is_single ? 0 : i], result.is_integer));
  }
  return result;
}

Constant Transposed(const Constant& matrix) {
  const auto rows = static_cast<size_t>(matrix.dims[0]);
  const auto columns = static_cast<size_t>(matrix.dims[1]);
  Constant result = matrix;
  result.dims = {matrix.dims[1], matrix.dims[0]};
  for (size_t i = 0; i < result.values.size(); ++i)
    result.values[i] = matrix.values[i % rows * columns + i / rows];
  return result;
}

absl::StatusOr<Value> Transpose(NodeReader& node) {
  const bool swaps = node.Ints("perm", {1, 0}) == std::vector<int64_t>{1, 0};
  if (std::optional<Stored> stored = node.IfStored(0)) {
    if (stored->tensor->dims_size() != 2) return NotComputed("by transposing other than a matrix");
    if (swaps) stored->is_transposed = !stored->is_transposed;
    return *stored;
  }
  ASSIGN_OR_RETURN(Constant matrix, node.Constant(0));
  if (matrix.dims.size() != 2) return NotComputed("by transposing other than a matrix");
  return swaps ? Transposed(matrix) : std::move(matrix);
}

struct Folded {
  std::string_view op;
  absl::StatusOr<Constant> (*compute)(NodeReader& node);
};
constexpr Folded kFolded[] = {
    {"Gather", Gather},
    {"Concat", Concat},
    {"Unsqueeze", ChangeAxes},
    {"Squeeze", ChangeAxes},
    {"Slice", Slice},
    {"Shape", Shape},
    {"ConstantOfShape", ConstantOfShape},
    {"Reshape", Reshape},
    {"Cast", Cast},
    {"Add", Arithmetic},
    {"Sub", Arithmetic},
    {"Mul", Arithmetic},
    {"Div", Arithmetic},
};

}  // namespace

std::pair<int64_t, int64_t> ClampedRange(int64_t start, int64_t end, int64_t extent) {
  const int64_t first = std::clamp<int64_t>(start < 0 ? start + extent : start, 0, extent);
  const int64_t last = std::clamp<int64_t>(end < 0 ? end + extent : end, first, extent);
  return {first, last};
}

Constant ShapeOf(NodeReader& node, const std::vector<int64_t>& dims) {
  const int64_t rank = std::ssize(dims);
  const auto [first, last] = ClampedRange(node.Int("start", 0), node.Int("end", rank), rank);
  return {.dims = {last - first}, .values = {dims.begin() + first, dims.begin() + last}};
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
