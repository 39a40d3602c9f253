#include "neap/core/graph/source.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/specify.h"

namespace neap {
namespace {

absl::Status CheckNoInputs(const LayerContext& context) {
  if (context.inputs.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("is a source and takes no inputs, got ", context.inputs.size()));
}

}  // namespace

Shape LabelShape(const Shape& predictions) {
  if (predictions.h() == 1 && predictions.w() == 1) return {predictions.n()};
  return {predictions.n(), predictions.h(), predictions.w()};
}

absl::StatusOr<LayerSpec> Images::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckNoInputs(context));
  if (absl::Status checked = CheckImageInputs({.inputs = {tensor}}, 1); !checked.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("the image batch: ", checked.message()));
  }
  return LayerSpec{.output = tensor};
}

absl::StatusOr<LayerSpec> Labels::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckNoInputs(context));
  const bool ranked = tensor.shape.rank() == 1 || tensor.shape.rank() == 3;
  if (tensor.dtype != DType::kInt32 || !ranked || tensor.elements() <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("labels are ", tensor.ToString(), ", expected int32 {N} or {N, H, W}"));
  }
  return LayerSpec{.output = tensor};
}

absl::StatusOr<LayerSpec> Targets::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckNoInputs(context));
  if (tensor.dtype != DType::kFp32 || tensor.shape.rank() != 4 || tensor.elements() <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("targets are ", tensor.ToString(), ", expected fp32 {N, C, H, W}"));
  }
  return LayerSpec{.output = tensor};
}

}  // namespace neap
