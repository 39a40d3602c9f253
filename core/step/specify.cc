#include "neap/core/step/specify.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

bool IsFloat(DType dtype) {
  return dtype == DType::kFp32 || dtype == DType::kTf32 || Is16Bit(dtype);
}

absl::Status CheckImage(const TensorSpec& input, size_t index) {
  if (input.shape.rank() != 4) {
    return absl::InvalidArgumentError(absl::StrCat("input ", index, " is ", input.ToString(),
                                                   ", expected an image {N, C, H, W}"));
  }
  for (int64_t extent : input.shape.dims()) {
    if (extent > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("input ", index, " is ", input.ToString(), ": it has no elements"));
  }
  if (input.size_bytes() > kMaxTensorBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("input ", index, ", ", input.ToString(), ", is larger than 16 TiB"));
  }
  if (!IsFloat(input.dtype)) {
    return absl::InvalidArgumentError(absl::StrCat("input ", index, " is ", input.ToString(),
                                                   ", expected a floating-point tensor"));
  }
  return absl::OkStatus();
}

absl::Status CheckImages(const LayerContext& context) {
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    RETURN_IF_ERROR(CheckImage(context.inputs[i], i));
  }
  return absl::OkStatus();
}

std::string ToText(Extent2d extent) { return absl::StrCat(extent.h, "x", extent.w); }

// `least` is 0 or 1.
absl::Status CheckExtent(std::string_view name, Extent2d extent, int64_t least) {
  const std::string text = absl::StrCat(std::string(name), " ", ToText(extent));
  if (std::min(extent.h, extent.w) < least) {
    return absl::InvalidArgumentError(
        absl::StrCat(text, least == 0 ? " must not be negative" : " must be positive"));
  }
  if (std::max(extent.h, extent.w) > kMaxWindowExtent) {
    return absl::InvalidArgumentError(absl::StrCat(text, " must be at most ", kMaxWindowExtent));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckImageInputs(const LayerContext& context, size_t count) {
  if (context.inputs.size() != count) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "takes %d input%s, got %d", count, count == 1 ? "" : "s", context.inputs.size()));
  }
  return CheckImages(context);
}

absl::Status CheckImageInputsAtLeast(const LayerContext& context, size_t count) {
  if (context.inputs.size() < count) {
    return absl::InvalidArgumentError(
        absl::StrFormat("takes at least %d inputs, got %d", count, context.inputs.size()));
  }
  return CheckImages(context);
}

absl::Status CheckWindow(const Window& window) {
  RETURN_IF_ERROR(CheckExtent("kernel", window.kernel, 1));
  RETURN_IF_ERROR(CheckExtent("stride", window.stride, 1));
  RETURN_IF_ERROR(CheckExtent("dilation", window.dilation, 1));
  return CheckExtent("padding", window.padding, 0);
}

absl::StatusOr<Extent2d> WindowOutput(const TensorSpec& input, const Window& window) {
  const Extent2d out(WindowPositions(input.shape.h(), window.kernel.h, window.stride.h,
                                     window.padding.h, window.dilation.h),
                     WindowPositions(input.shape.w(), window.kernel.w, window.stride.w,
                                     window.padding.w, window.dilation.w));
  if (out.h > 0 && out.w > 0) return out;
  return absl::InvalidArgumentError(
      absl::StrCat("kernel ", ToText(window.kernel), " with dilation ", ToText(window.dilation),
                   " is larger than the image ", ToText({input.shape.h(), input.shape.w()}),
                   " with padding ", ToText(window.padding)));
}

double Product(std::initializer_list<int64_t> factors) {
  double product = 1;
  for (int64_t factor : factors) product *= static_cast<double>(factor);
  return product;
}

TensorSpec WithShape(const TensorSpec& input, Shape shape) {
  return {.shape = std::move(shape), .dtype = input.dtype, .layout = input.layout};
}

TensorSpec InFullPrecision(TensorSpec spec) {
  if (Is16Bit(spec.dtype)) spec.dtype = DType::kFp32;
  return spec;
}

TensorSpec VectorSpec(int64_t size) { return {.shape = {size}}; }

}  // namespace neap
