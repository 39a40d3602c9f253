#include "neap/core/step/specify.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

bool IsFloat(DType dtype) {
  return dtype == DType::kFp32 || dtype == DType::kTf32 || dtype == DType::kFp16 ||
         dtype == DType::kBf16;
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
  if (window.kernel.h <= 0 || window.kernel.w <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("kernel ", ToText(window.kernel), " must be positive"));
  }
  if (window.stride.h <= 0 || window.stride.w <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("stride ", ToText(window.stride), " must be positive"));
  }
  if (window.dilation.h <= 0 || window.dilation.w <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("dilation ", ToText(window.dilation), " must be positive"));
  }
  if (window.padding.h < 0 || window.padding.w < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("padding ", ToText(window.padding), " must not be negative"));
  }
  return absl::OkStatus();
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

TensorSpec WithShape(const TensorSpec& input, Shape shape) {
  return {.shape = std::move(shape), .dtype = input.dtype, .layout = input.layout};
}

TensorSpec VectorSpec(int64_t size) { return {.shape = {size}}; }

}  // namespace neap
