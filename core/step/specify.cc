#include "neap/core/step/specify.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

bool IsFloat(DType dtype) {
  return dtype == DType::kFp32 || dtype == DType::kTf32 || Is16Bit(dtype);
}

absl::Status CheckOne(const TensorSpec& input, size_t index) {
  if (input.shape.spatial_axes() == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("input ", index, " is ", input.ToString(),
                     ", expected {N, C, T}, {N, C, H, W} or {N, C, D, H, W}"));
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

absl::Status CheckEach(const LayerContext& context) {
  for (size_t i = 0; i < context.inputs.size(); ++i)
    RETURN_IF_ERROR(CheckOne(context.inputs[i], i));
  return absl::OkStatus();
}

// `least` is 0 or 1.
absl::Status CheckExtents(std::string_view name, const Extents& extents, int64_t least, int axes) {
  RETURN_IF_ERROR(CheckSuits(name, extents, axes));
  const std::string text = absl::StrCat(std::string(name), " ", extents.ToString());
  const auto [min, max] = std::minmax_element(extents.values().begin(), extents.values().end());
  if (*min < least) {
    return absl::InvalidArgumentError(
        absl::StrCat(text, least == 0 ? " must not be negative" : " must be positive"));
  }
  if (*max > kMaxWindowExtent) {
    return absl::InvalidArgumentError(absl::StrCat(text, " must be at most ", kMaxWindowExtent));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSpatialInputs(const LayerContext& context, size_t count) {
  if (context.inputs.size() != count) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "takes %d input%s, got %d", count, count == 1 ? "" : "s", context.inputs.size()));
  }
  return CheckEach(context);
}

absl::Status CheckSpatialInputsAtLeast(const LayerContext& context, size_t count) {
  if (context.inputs.size() < count) {
    return absl::InvalidArgumentError(
        absl::StrFormat("takes at least %d inputs, got %d", count, context.inputs.size()));
  }
  return CheckEach(context);
}

absl::Status CheckImageInputs(const LayerContext& context, size_t count) {
  RETURN_IF_ERROR(CheckSpatialInputs(context, count));
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    if (context.inputs[i].shape.spatial_axes() == 2) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "input ", i, " is ", context.inputs[i].ToString(), ", expected an image {N, C, H, W}"));
  }
  return absl::OkStatus();
}

std::string_view NameOfSpatial(int axes) {
  if (axes == 1) return "sequence";
  return axes == 2 ? "image" : "volume";
}

absl::Status CheckSuits(std::string_view name, const Extents& extents, int axes) {
  if (extents.Suits(axes)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(name), " ", extents.ToString(), " has ", extents.axes(),
                   extents.axes() == 1 ? " number" : " numbers", ", but the ",
                   std::string(NameOfSpatial(axes)), " has ", axes, axes == 1 ? " axis" : " axes"));
}

absl::Status CheckWindow(const Window& window, int axes) {
  RETURN_IF_ERROR(CheckExtents("kernel", window.kernel, 1, axes));
  RETURN_IF_ERROR(CheckExtents("stride", window.stride, 1, axes));
  RETURN_IF_ERROR(CheckExtents("dilation", window.dilation, 1, axes));
  return CheckExtents("padding", window.padding, 0, axes);
}

absl::StatusOr<Extents> WindowOutput(const TensorSpec& input, const Window& window) {
  const absl::Span<const int64_t> sizes = input.shape.spatial();
  const int axes = input.shape.spatial_axes();
  std::vector<int64_t> out;
  for (int i = 0; i < axes; ++i) {
    out.push_back(WindowPositions(sizes[static_cast<size_t>(i)], window.kernel[i], window.stride[i],
                                  window.padding[i], window.dilation[i]));
  }
  if (std::count(out.begin(), out.end(), 0) == 0) return Extents::Of(out);
  return absl::InvalidArgumentError(
      absl::StrCat("kernel ", window.kernel.Along(axes).ToString(), " with dilation ",
                   window.dilation.Along(axes).ToString(), " is larger than the ",
                   std::string(NameOfSpatial(axes)), " ", Extents::Of(sizes).ToString(),
                   " with padding ", window.padding.Along(axes).ToString()));
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
