#include "neap/core/base/tensor.h"

#include <algorithm>
#include <array>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/enum_name.h"

namespace neap {
namespace {

constexpr std::array<std::string_view, 6> kDTypeNames = {"fp32", "tf32",  "fp16",
                                                         "bf16", "uint8", "int32"};
// By the number of spatial axes from 1, channels first and channels last; then names of any number.
constexpr std::array<std::string_view, 2 * kMaxSpatialAxes + 2> kLayoutNames = {
    "ncw", "nwc", "nchw", "nhwc", "ncdhw", "ndhwc", "channels_first", "channels_last"};
constexpr std::array<std::string_view, kRoleCount> kRoleNames = {
    "input", "label",      "activation", "saved",     "gradient",
    "param", "param_grad", "master",     "optimizer", "state"};

template <typename Enum, size_t kCount>
absl::StatusOr<Enum> Parse(std::string_view what, const std::array<std::string_view, kCount>& names,
                           std::string_view text) {
  for (size_t i = 0; i < kCount; ++i) {
    if (names[i] == text) return static_cast<Enum>(i);
  }
  std::string known;
  for (std::string_view name : names) absl::StrAppendFormat(&known, " %s", name);
  return absl::InvalidArgumentError(
      absl::StrFormat("unknown %s '%s'; known:%s", what, text, known));
}

}  // namespace

int64_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kFp16:
    case DType::kBf16:
      return 2;
    case DType::kUInt8:
      return 1;
    case DType::kFp32:
    case DType::kTf32:
    case DType::kInt32:
      return 4;
  }
  return 4;
}

std::string_view Name(DType dtype) { return NameIn(kDTypeNames, dtype); }
std::string_view Name(Layout layout, int spatial_axes) {
  if (layout > Layout::kChannelsLast) return "unknown";
  return kLayoutNames[2 * static_cast<size_t>(spatial_axes - 1) + static_cast<size_t>(layout)];
}
std::string_view Name(Role role) { return NameIn(kRoleNames, role); }

absl::StatusOr<DType> ParseDType(std::string_view text) {
  return Parse<DType>("dtype", kDTypeNames, text);
}
absl::StatusOr<Layout> ParseLayout(std::string_view text) {
  constexpr std::array<std::string_view, 2> kOfImages = {"nchw", "nhwc"};
  const auto found = std::find(kLayoutNames.begin(), kLayoutNames.end(), text);
  if (found == kLayoutNames.end()) return Parse<Layout>("layout", kOfImages, text);
  return static_cast<Layout>((found - kLayoutNames.begin()) % 2);
}
absl::StatusOr<Role> ParseRole(std::string_view text) {
  return Parse<Role>("role", kRoleNames, text);
}

int64_t SaturatingProduct(int64_t a, int64_t b) {
  int64_t product = 0;
  const bool overflows = __builtin_mul_overflow(a, b, &product);
  return overflows ? std::numeric_limits<int64_t>::max() : product;
}

int64_t Shape::elements() const {
  int64_t count = 1;
  for (int64_t dim : dims_) count = SaturatingProduct(count, dim);
  return count;
}

std::string Shape::ToString() const { return absl::StrJoin(dims_, "x"); }

absl::Span<const int64_t> Shape::spatial() const {
  return absl::MakeConstSpan(dims_).last(static_cast<size_t>(spatial_axes()));
}

int64_t Shape::positions() const {
  int64_t count = 1;
  for (int64_t extent : spatial()) count = SaturatingProduct(count, extent);
  return count;
}

Shape SpatialShape(int64_t n, int64_t c, absl::Span<const int64_t> spatial) {
  Shape::Dims dims = {n, c};
  dims.insert(dims.end(), spatial.begin(), spatial.end());
  return Shape(std::move(dims));
}

std::string_view TensorSpec::layout_name() const {
  const int axes = shape.spatial_axes();
  const bool is_sequence = axes == 1 && dtype != DType::kInt32;
  return Name(layout, is_sequence || axes == kMaxSpatialAxes ? axes : 2);
}

std::string TensorSpec::ToString() const {
  return absl::StrFormat("%s %s %s", shape.ToString(), Name(dtype), layout_name());
}

Shape WithFirstExtent(Shape shape, int64_t extent) {
  if (shape.rank() == 0) return shape;
  Shape::Dims dims = shape.dims();
  dims[0] = extent;
  return Shape(std::move(dims));
}

TensorSpec WithFirstExtent(TensorSpec spec, int64_t extent) {
  spec.shape = WithFirstExtent(std::move(spec.shape), extent);
  return spec;
}

}  // namespace neap
