#include "neap/nets/onnx/constants/constant_folding.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/nets/onnx/constants/constant_arrays.h"
#include "neap/nets/onnx/constants/constant_math.h"
#include "neap/nets/onnx/constants/constant_sums.h"
#include "neap/nets/onnx/constants/fold_sums.h"
#include "neap/nets/onnx/node_axes.h"

namespace neap::nets {
namespace {

using onnx_schema::Tensor;

Constant Integers(const std::vector<int64_t>& values) {
  return {.dims = {std::ssize(values)}, .values = {values.begin(), values.end()}};
}

absl::StatusOr<Value> FromAttribute(NodeReader& node) {
  if (const Tensor* const tensor = node.TensorAttribute("value")) return Stored{.tensor = tensor};
  if (node.HasAttribute("value_int"))
    return Constant{.values = {static_cast<double>(node.Int("value_int", 0))}};
  if (node.HasAttribute("value_float"))
    return Constant{.values = {node.Float("value_float", 0)}, .type = Tensor::FLOAT};
  if (node.HasAttribute("value_ints")) return Integers(node.Ints("value_ints", {}));
  const std::vector<float> floats = node.Floats("value_floats", {});
  return Constant{.dims = {std::ssize(floats)},
                  .values = {floats.begin(), floats.end()},
                  .type = Tensor::FLOAT};
}

absl::StatusOr<Constant> FoldGather(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const Constant data, node.Constant(0));
  ASSIGN_OR_RETURN(const Constant indices, node.Constant(1));
  ASSIGN_OR_RETURN(const size_t axis, CheckedAxis(node.Int("axis", 0), std::ssize(data.dims)));
  std::vector<int64_t> positions = ToIntegers(indices);
  for (int64_t& index : positions) {
    const int64_t given = index;
    if (index < 0) index += data.dims[axis];
    if (index < 0 || index >= data.dims[axis]) {
      return absl::InvalidArgumentError(
          absl::StrCat("it gathers element ", given, " of ", data.dims[axis]));
    }
  }
  Dims dims = data.dims;
  dims[axis] = std::ssize(positions);
  RETURN_IF_ERROR(network.CountConstant(dims));
  Constant result = Taken(data, axis, positions);
  result.dims.erase(result.dims.begin() + static_cast<std::ptrdiff_t>(axis));
  result.dims.insert(result.dims.begin() + static_cast<std::ptrdiff_t>(axis), indices.dims.begin(),
                     indices.dims.end());
  return result;
}

absl::StatusOr<Constant> FoldConcat(NodeReader& node, NetworkBuilder& network) {
  std::vector<Constant> parts;
  for (int i = 0; i < node.input_count(); ++i) {
    ASSIGN_OR_RETURN(parts.emplace_back(), node.Constant(i));
  }
  ASSIGN_OR_RETURN(const size_t axis, CheckedAxis(node.Int("axis", 0), std::ssize(parts[0].dims)));
  Dims dims = parts[0].dims;
  dims[axis] = 0;
  for (const Constant& part : parts) {
    Dims others = part.dims;
    if (others.size() == dims.size()) others[axis] = dims[axis];
    if (others != dims)
      return absl::InvalidArgumentError("it concatenates constants of extents that do not fit");
    dims[axis] += part.dims[axis];
  }
  RETURN_IF_ERROR(network.CountConstant(dims));
  return Concatenated(parts, axis);
}

absl::StatusOr<Constant> FoldSlice(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const Constant data, node.Constant(0));
  ASSIGN_OR_RETURN(const Slices slices, ReadSlices(node, std::ssize(data.dims)));
  Dims dims = data.dims;
  Dims strides = StridesOf(data.dims);
  int64_t offset = 0;
  for (size_t i = 0; i < slices.axes.size(); ++i) {
    const auto axis = static_cast<size_t>(slices.axes[i]);
    const int64_t extent = data.dims[axis], step = slices.steps[i];
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? extent : extent - 1;
    const auto clamped = [&](int64_t position, int64_t lowest) {
      return std::clamp(position < 0 ? position + extent : position, std::min(lowest, high), high);
    };
    const int64_t first = clamped(slices.starts[i], 0), last = clamped(slices.ends[i], low);
    const int64_t distance = step > 0 ? last - first : first - last;
    const int64_t size = std::abs(step);
    dims[axis] = distance <= 0 ? 0 : (distance - 1) / size + 1;
    offset += first * strides[axis];
    strides[axis] = dims[axis] <= 1 ? 0 : strides[axis] * step;
  }
  RETURN_IF_ERROR(network.CountConstant(dims));
  return View(data, dims, strides, offset);
}

absl::StatusOr<Constant> FoldShape(NodeReader& node, NetworkBuilder& /*network*/) {
  if (const std::optional<Stored> stored = node.IfStored(0)) return ShapeOf(node, stored->dims());
  ASSIGN_OR_RETURN(const Constant data, node.Constant(0));
  return ShapeOf(node, data.dims);
}

absl::StatusOr<Constant> FoldSize(NodeReader& node, NetworkBuilder& /*network*/) {
  ASSIGN_OR_RETURN(const Constant data, node.Constant(0));
  return Constant{.values = {static_cast<double>(data.values.size())}};
}

absl::StatusOr<Constant> FoldConstantOfShape(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const Constant shape, node.Constant(0));
  const Constant zero = {.dims = {1}, .values = {0}, .type = Tensor::FLOAT};
  ASSIGN_OR_RETURN(const Constant value, node.ConstantAttribute("value", zero));
  if (value.values.size() != 1) return NotComputed("by repeating several values");
  const Dims dims = ToIntegers(shape);
  RETURN_IF_ERROR(network.CountConstant(dims));
  return View(value, dims, Dims(dims.size(), 0));
}

absl::StatusOr<Constant> FoldExpand(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const Constant data, node.Constant(0));
  ASSIGN_OR_RETURN(const Constant shape, node.Constant(1));
  const std::optional<Dims> dims = BroadcastDims(data.dims, ToIntegers(shape));
  if (!dims.has_value())
    return absl::InvalidArgumentError("it expands a constant to extents that do not fit");
  RETURN_IF_ERROR(network.CountConstant(*dims));
  return BroadcastTo(data, *dims);
}

absl::StatusOr<Constant> FoldRange(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const Constant start, node.Constant(0));
  ASSIGN_OR_RETURN(const double first, node.Scalar(0, 0));
  ASSIGN_OR_RETURN(const double limit, node.Scalar(1, 0));
  ASSIGN_OR_RETURN(const double step, node.Scalar(2, 1));
  const double count = std::ceil((limit - first) / step);
  if (std::isnan(count) || count > 1e9) return NotComputed("by a range without end");
  Constant result = {.dims = {std::max<int64_t>(0, ToInteger(count))}, .values = {}};
  result.type = start.type;
  RETURN_IF_ERROR(network.CountConstant(result.dims));
  for (int64_t i = 0; i < result.dims[0]; ++i)
    result.values.push_back(first + static_cast<double>(i) * step);
  return Cast(result, result.type);
}

absl::StatusOr<Constant> FoldCast(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const Constant data, node.Constant(0));
  node.Int("saturate", 1);  // only for 8-bit floats, which are refused
  RETURN_IF_ERROR(network.CountConstant(data.dims));
  return Cast(data, node.Int("to", 0));
}

absl::StatusOr<Constant> FoldClip(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(Constant data, node.Constant(0));
  ASSIGN_OR_RETURN(const auto bounds, node.Bounds());
  RETURN_IF_ERROR(network.CountConstant(data.dims));
  for (double& value : data.values) value = std::min(std::max(value, bounds.first), bounds.second);
  return data;
}

absl::StatusOr<Constant> FoldTile(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(Constant data, node.Constant(0));
  ASSIGN_OR_RETURN(const Constant times, node.Constant(1));
  if (times.values.size() != data.dims.size())
    return absl::InvalidArgumentError("it does not say how often each axis is repeated");
  for (size_t axis = 0; axis < data.dims.size(); ++axis) {
    const int64_t count = ToInteger(times.values[axis]), extent = data.dims[axis];
    Dims dims = data.dims;
    dims[axis] = SaturatingProduct(extent, count);
    RETURN_IF_ERROR(network.CountConstant(dims));
    Dims positions(static_cast<size_t>(dims[axis]));
    for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<int64_t>(i) % extent;
    if (count != 1) data = Taken(data, axis, positions);
  }
  return data;
}

absl::StatusOr<Constant> FoldPad(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(Constant data, node.Constant(0));
  ASSIGN_OR_RETURN(const Dims pads, node.IntsOrInput("pads", 1));
  ASSIGN_OR_RETURN(const double value, node.Scalar(2, 0));
  const size_t rank = data.dims.size();
  if (node.String("mode", "constant") != "constant" || node.HasInput(3) || pads.size() != 2 * rank)
    return NotComputed("by other pads than those of one number for all axes");
  if (std::any_of(pads.begin(), pads.end(), [](int64_t pad) { return pad < 0; }))
    return NotComputed("by negative pads");
  const Constant number = {.values = {value}, .type = data.type};
  for (size_t axis = 0; axis < rank; ++axis) {
    if (pads[axis] == 0 && pads[axis + rank] == 0) continue;
    Dims before = data.dims, after = data.dims, all = data.dims;
    before[axis] = pads[axis];
    after[axis] = pads[axis + rank];
    RETURN_IF_ERROR(network.CountConstant(before));
    RETURN_IF_ERROR(network.CountConstant(after));
    all[axis] += before[axis] + after[axis];
    RETURN_IF_ERROR(network.CountConstant(all));
    data = Concatenated({BroadcastTo(number, before), data, BroadcastTo(number, after)}, axis);
  }
  return data;
}

absl::StatusOr<Constant> OfElements(NodeReader& node, NetworkBuilder& network) {
  if (node.op() == "Mod" && node.Int("fmod", 0) != 0)
    return NotComputed("by a remainder that has the sign of what is divided");
  std::vector<Constant> arguments;
  for (int i = 0; i < node.input_count(); ++i) {
    ASSIGN_OR_RETURN(arguments.emplace_back(), node.Constant(i));
  }
  return Elementwise(network.budget(), node.op(), arguments);
}

absl::StatusOr<Constant> FoldTranspose(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const Constant data, node.Constant(0));
  ASSIGN_OR_RETURN(const Dims order, ReadOrder(node, std::ssize(data.dims)));
  const Dims own = StridesOf(data.dims);
  Dims dims, strides;
  for (const int64_t axis : order) {
    dims.push_back(data.dims[static_cast<size_t>(axis)]);
    strides.push_back(own[static_cast<size_t>(axis)]);
  }
  RETURN_IF_ERROR(network.CountConstant(dims));
  return View(data, dims, strides);
}

// Slices of the data, by the places of their first elements, are replaced by those of the updates.
absl::StatusOr<Constant> FoldScatterNd(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(Constant data, node.Constant(0));
  ASSIGN_OR_RETURN(const Constant indices, node.Constant(1));
  ASSIGN_OR_RETURN(const Constant updates, node.Constant(2));
  if (node.String("reduction", "none") != "none")
    return NotComputed("by sums of what is scattered");
  const absl::Status unfit =
      absl::InvalidArgumentError("it scatters a constant of extents that do not fit");
  if (indices.dims.empty()) return unfit;
  const auto depth = static_cast<size_t>(indices.dims.back());
  if (depth > data.dims.size()) return unfit;
  Dims dims(indices.dims.begin(), indices.dims.end() - 1);
  dims.insert(dims.end(), data.dims.begin() + indices.dims.back(), data.dims.end());
  if (updates.dims != dims) return unfit;
  RETURN_IF_ERROR(network.CountConstant(data.dims));
  RETURN_IF_ERROR(network.CountConstant(dims));
  const Dims strides = StridesOf(data.dims), places = ToIntegers(indices);
  const size_t slices = depth == 0 ? 1 : places.size() / depth;
  const size_t size = slices == 0 ? 0 : updates.values.size() / slices;
  for (size_t i = 0; i < slices; ++i) {
    int64_t first = 0;
    for (size_t axis = 0; axis < depth; ++axis) {
      const int64_t given = places[i * depth + axis], extent = data.dims[axis];
      const int64_t place = given < 0 ? given + extent : given;
      if (place < 0 || place >= extent) {
        return absl::InvalidArgumentError(
            absl::StrCat("it scatters to element ", given, " of ", extent));
      }
      first += place * strides[axis];
    }
    const auto from = updates.values.begin() + static_cast<std::ptrdiff_t>(i * size);
    std::copy_n(from, size, data.values.begin() + first);
  }
  return data;
}

struct Folded {
  std::string_view op;
  absl::StatusOr<Constant> (*compute)(NodeReader& node, NetworkBuilder& network);
};
constexpr Folded kFolded[] = {
    {"BatchNormalization", FoldBatchNorm},
    {"Cast", FoldCast},
    {"Clip", FoldClip},
    {"Concat", FoldConcat},
    {"ConstantOfShape", FoldConstantOfShape},
    {"Conv", FoldConv},
    {"CumSum", FoldCumSum},
    {"Expand", FoldExpand},
    {"Gather", FoldGather},
    {"Gemm", FoldGemm},
    {"MatMul", FoldMatMul},
    {"Pad", FoldPad},
    {"Range", FoldRange},
    {"ScatterND", FoldScatterNd},
    {"Shape", FoldShape},
    {"Size", FoldSize},
    {"Slice", FoldSlice},
    {"Tile", FoldTile},
    {"Transpose", FoldTranspose},
};

const Folded* FindFolded(std::string_view op) {
  const auto* const found = std::find_if(std::begin(kFolded), std::end(kFolded),
                                         [&](const Folded& known) { return known.op == op; });
  return found == std::end(kFolded) ? nullptr : found;
}

// Whether an Expand only repeats a tensor {1, T, C}, say, for every image. It is not read then
// before a node needs its elements.
absl::StatusOr<bool> RepeatsForImages(NodeReader& node, const NetworkBuilder& network, Dims dims) {
  ASSIGN_OR_RETURN(const Constant shape, node.Constant(1));
  if (dims.size() < 3 || dims[0] != 1) return false;
  dims[0] = network.graph_batch();
  return BroadcastDims(dims, ToIntegers(shape)) == dims;
}

// A tensor of the file as its elements are, or as the transpose of a matrix; absent if the node
// does something else.
absl::StatusOr<std::optional<Stored>> WithOtherAxes(NodeReader& node,
                                                    const NetworkBuilder& network) {
  std::optional<Stored> stored = node.IfStored(0);
  if (!stored.has_value()) return std::nullopt;
  if (node.op() == "Expand") {
    ASSIGN_OR_RETURN(const bool repeats, RepeatsForImages(node, network, stored->dims()));
    if (!repeats) return std::nullopt;
    stored->repeats = network.graph_batch();
    return stored;
  }
  if (node.op() == "Identity") {
    stored->alias = node.proto().output(0);
    return stored;
  }
  if (node.op() == "Transpose" && stored->dims().size() == 2) {
    ASSIGN_OR_RETURN(const Dims order, ReadOrder(node, 2));
    if (order[0] == 1) stored->is_transposed = !stored->is_transposed;
    return stored;
  }
  if (!ChangesAxes(node.op()) || stored->is_transposed || stored->repeats > 1) return std::nullopt;
  ASSIGN_OR_RETURN(stored->reshaped, AxesAfter(node, stored->dims()));
  return stored;
}

absl::Status FoldSplit(NodeReader& node, NetworkBuilder& network) {
  ASSIGN_OR_RETURN(const Constant data, node.Constant(0));
  ASSIGN_OR_RETURN(const size_t axis, CheckedAxis(node.Int("axis", 0), std::ssize(data.dims)));
  ASSIGN_OR_RETURN(const std::vector<int64_t> parts, ReadParts(node, data.dims[axis]));
  RETURN_IF_ERROR(network.CountConstant(data.dims));
  int64_t first = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    Dims positions(static_cast<size_t>(parts[i]));
    std::iota(positions.begin(), positions.end(), first);
    network.Set(node.proto().output(static_cast<int>(i)), Taken(data, axis, positions));
    first += parts[i];
  }
  return absl::OkStatus();
}

absl::StatusOr<Value> FoldOne(NodeReader& node, NetworkBuilder& network) {
  if (node.op() == "Constant") return FromAttribute(node);
  ASSIGN_OR_RETURN(const std::optional<Stored> stored, WithOtherAxes(node, network));
  if (stored.has_value()) return Value(*stored);
  if (node.op() == "Identity") return node.Constant(0);
  if (ChangesAxes(node.op())) {
    ASSIGN_OR_RETURN(Constant data, node.Constant(0));
    ASSIGN_OR_RETURN(data.dims, AxesAfter(node, data.dims));
    RETURN_IF_ERROR(network.CountConstant(data.dims));
    return Value(std::move(data));
  }
  const Folded* const folded = FindFolded(node.op());
  const bool reduces = IsReduction(node.op());
  if (folded == nullptr && !reduces && !IsElementwise(node.op()))
    return NotComputed("by this operator");
  ASSIGN_OR_RETURN(Constant result, folded != nullptr ? folded->compute(node, network)
                                    : reduces         ? FoldReduce(node, network)
                                                      : OfElements(node, network));
  return Value(std::move(result));
}

}  // namespace

bool CanFold(std::string_view op) {
  return op == "Constant" || op == "Identity" || op == "Split" || ChangesAxes(op) ||
         FindFolded(op) != nullptr || IsReduction(op) || IsElementwise(op);
}

absl::Status Fold(NodeReader& node, NetworkBuilder& network) {
  if (node.op() == "Split") return FoldSplit(node, network);
  ASSIGN_OR_RETURN(Value value, FoldOne(node, network));
  network.Set(node.proto().output(0), std::move(value));
  return absl::OkStatus();
}

}  // namespace neap::nets
