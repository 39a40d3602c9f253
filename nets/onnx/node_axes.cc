#include "neap/nets/onnx/node_axes.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/tensor.h"

namespace neap::nets {
namespace {

int64_t Product(const std::vector<int64_t>& dims) {
  int64_t product = 1;
  for (const int64_t extent : dims) product = SaturatingProduct(product, extent);
  return product;
}

// More than any network needs, as a copy for each of a million would take hours.
absl::Status CheckRank(int64_t rank) {
  constexpr int64_t kMaxAxes = 64;
  if (rank <= kMaxAxes) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat("it makes ", rank, " axes"));
}

absl::Status CannotReshape(const std::vector<int64_t>& dims, const std::vector<int64_t>& target) {
  return absl::InvalidArgumentError(
      absl::StrCat("it makes ", absl::StrJoin(target, "x"), " of ", absl::StrJoin(dims, "x")));
}

// 0 copies an extent, and -1 is what is left.
absl::StatusOr<std::vector<int64_t>> Reshaped(NodeReader& node, const std::vector<int64_t>& dims) {
  ASSIGN_OR_RETURN(const Constant constant, node.Constant(1));
  std::vector<int64_t> target = ToIntegers(constant);
  RETURN_IF_ERROR(CheckRank(std::ssize(target)));
  const bool zero_copies = node.Int("allowzero", 0) == 0;  // otherwise 0 is an extent
  int64_t known = 1;
  for (size_t i = 0; i < target.size(); ++i) {
    if (target[i] == 0 && zero_copies && i < dims.size()) target[i] = dims[i];
    if (target[i] < -1) return CannotReshape(dims, target);
    if (target[i] != -1) known = SaturatingProduct(known, target[i]);
  }
  const auto open = std::find(target.begin(), target.end(), -1);
  if (open != target.end() && known > 0) *open = Product(dims) / known;
  const bool has_open = std::find(target.begin(), target.end(), -1) != target.end();
  if (has_open || Product(target) != Product(dims)) return CannotReshape(dims, target);
  return target;
}

absl::StatusOr<std::vector<int64_t>> Flattened(NodeReader& node, const std::vector<int64_t>& dims) {
  const int64_t rank = std::ssize(dims);
  int64_t axis = node.Int("axis", 1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis > rank)
    return absl::InvalidArgumentError(absl::StrCat("attribute 'axis' is ", axis));
  return std::vector<int64_t>{Product({dims.begin(), dims.begin() + axis}),
                              Product({dims.begin() + axis, dims.end()})};
}

absl::StatusOr<std::vector<int64_t>> Squeezed(NodeReader& node, const std::vector<int64_t>& dims) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> given, node.IntsOrInput("axes", 1));
  const bool names_axes = node.HasAttribute("axes") || node.HasInput(1);
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, CheckedAxes(given, std::ssize(dims)));
  std::vector<int64_t> left;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool is_named = std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(i));
    if (is_named && dims[i] != 1)
      return absl::InvalidArgumentError(absl::StrCat("it removes axis ", i, " of ", dims[i]));
    if (names_axes ? !is_named : dims[i] != 1) left.push_back(dims[i]);
  }
  return left;
}

absl::StatusOr<std::vector<int64_t>> Unsqueezed(NodeReader& node,
                                                const std::vector<int64_t>& dims) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> given, node.IntsOrInput("axes", 1));
  const int64_t rank = std::ssize(dims) + std::ssize(given);
  RETURN_IF_ERROR(CheckRank(rank));
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, CheckedAxes(given, rank));
  std::vector<int64_t> more = dims;
  for (const int64_t axis : axes) more.insert(more.begin() + axis, 1);
  return more;
}

}  // namespace

absl::Status CheckIsImage(const ImageValue& x) {
  if (!x.is_flat()) return absl::OkStatus();
  return absl::UnimplementedError("its input is no image but a vector");
}

absl::StatusOr<size_t> CheckedAxis(int64_t axis, int64_t rank) {
  const int64_t from_zero = axis < 0 ? axis + rank : axis;
  if (from_zero >= 0 && from_zero < rank) return static_cast<size_t>(from_zero);
  return absl::InvalidArgumentError(absl::StrCat("it names axis ", axis, " of ", rank));
}

absl::StatusOr<std::vector<int64_t>> CheckedAxes(const std::vector<int64_t>& axes, int64_t rank) {
  std::vector<int64_t> checked;
  for (const int64_t axis : axes) {
    ASSIGN_OR_RETURN(const size_t from_zero, CheckedAxis(axis, rank));
    checked.push_back(static_cast<int64_t>(from_zero));
  }
  std::sort(checked.begin(), checked.end());
  if (std::adjacent_find(checked.begin(), checked.end()) == checked.end()) return checked;
  return absl::InvalidArgumentError("it names an axis twice");
}

bool ChangesAxes(std::string_view op) {
  return op == "Flatten" || op == "Reshape" || op == "Squeeze" || op == "Unsqueeze";
}

absl::StatusOr<std::vector<int64_t>> AxesAfter(NodeReader& node, const std::vector<int64_t>& dims) {
  if (node.op() == "Flatten") return Flattened(node, dims);
  if (node.op() == "Reshape") return Reshaped(node, dims);
  if (node.op() == "Squeeze") return Squeezed(node, dims);
  return Unsqueezed(node, dims);
}

absl::StatusOr<std::vector<int64_t>> ReducedAxes(NodeReader& node, int64_t rank) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> given, node.IntsOrInput("axes", 1));
  node.Int("noop_with_empty_axes", 0);
  return CheckedAxes(given, rank);
}

absl::StatusOr<size_t> SoftmaxAxis(NodeReader& node, int64_t opset,
                                   const std::vector<int64_t>& dims) {
  const bool takes_all = opset < 13;
  const int64_t stated = node.Int("axis", takes_all ? 1 : -1);
  ASSIGN_OR_RETURN(const size_t axis, CheckedAxis(stated, std::ssize(dims)));
  const bool is_one = !takes_all || Product({dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1,
                                             dims.end()}) == 1;
  if (axis > 0 && is_one) return axis;
  return absl::UnimplementedError(
      absl::StrCat("attribute 'axis' is ", stated, ", which is not one axis of an image"));
}

absl::StatusOr<std::vector<int64_t>> ReadOrder(NodeReader& node, int64_t rank) {
  std::vector<int64_t> reversed(static_cast<size_t>(rank));
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  std::vector<int64_t> order = node.Ints("perm", std::move(reversed));
  ASSIGN_OR_RETURN(const std::vector<int64_t> axes, CheckedAxes(order, rank));
  if (std::ssize(axes) == rank) return order;
  return absl::InvalidArgumentError(
      absl::StrCat("attribute 'perm' has ", axes.size(), " of ", rank, " axes"));
}

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

absl::StatusOr<Slices> ReadSlices(NodeReader& node, int64_t rank) {
  Slices slices;
  ASSIGN_OR_RETURN(slices.starts, node.IntsOrInput("starts", 1));
  ASSIGN_OR_RETURN(slices.ends, node.IntsOrInput("ends", 2));
  ASSIGN_OR_RETURN(slices.axes, node.IntsOrInput("axes", 3));
  ASSIGN_OR_RETURN(slices.steps, node.IntsOrInput("steps", 4));
  const size_t count = slices.starts.size();
  if (!node.HasAttribute("axes") && !node.HasInput(3)) {
    slices.axes.resize(count);
    std::iota(slices.axes.begin(), slices.axes.end(), 0);
  }
  if (!node.HasInput(4)) slices.steps.assign(count, 1);
  if (slices.ends.size() != count || slices.axes.size() != count || slices.steps.size() != count)
    return absl::InvalidArgumentError("its lists of starts, ends, axes and steps differ in length");
  for (size_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(const size_t axis, CheckedAxis(slices.axes[i], rank));
    slices.axes[i] = static_cast<int64_t>(axis);
    if (slices.steps[i] == 0) return absl::InvalidArgumentError("it has a step of 0");
  }
  RETURN_IF_ERROR(CheckedAxes(slices.axes, rank).status());
  return slices;
}

absl::StatusOr<std::vector<int64_t>> ReadParts(NodeReader& node, int64_t extent) {
  ASSIGN_OR_RETURN(std::vector<int64_t> parts, node.IntsOrInput("split", 1));
  const int64_t count = node.Int("num_outputs", node.proto().output_size());
  if (parts.empty() && count > 0) {
    const int64_t part = (extent + count - 1) / count;
    parts.assign(static_cast<size_t>(std::min<int64_t>(count, node.proto().output_size())), part);
    parts.back() = extent - part * (std::ssize(parts) - 1);
  }
  int64_t sum = 0;
  bool fits = std::ssize(parts) == node.proto().output_size();
  for (const int64_t part : parts) {
    fits = fits && part >= 0 && part <= extent - sum;
    if (fits) sum += part;
  }
  if (fits && sum == extent) return parts;
  return absl::InvalidArgumentError(absl::StrCat("it splits ", extent, " into ",
                                                 node.proto().output_size(), " outputs of ",
                                                 absl::StrJoin(parts, ", ")));
}

}  // namespace neap::nets
