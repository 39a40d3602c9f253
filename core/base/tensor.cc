#include "neap/core/base/tensor.h"

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
constexpr std::array<std::string_view, 2> kLayoutNames = {"nchw", "nhwc"};
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
std::string_view Name(Layout layout) { return NameIn(kLayoutNames, layout); }
std::string_view Name(Role role) { return NameIn(kRoleNames, role); }

absl::StatusOr<DType> ParseDType(std::string_view text) {
  return Parse<DType>("dtype", kDTypeNames, text);
}
absl::StatusOr<Layout> ParseLayout(std::string_view text) {
  return Parse<Layout>("layout", kLayoutNames, text);
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

std::string TensorSpec::ToString() const {
  return absl::StrFormat("%s %s %s", shape.ToString(), Name(dtype), Name(layout));
}

}  // namespace neap
