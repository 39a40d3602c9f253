#include "neap/layers/norm/group_norm.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/steps/norm_steps.h"

namespace neap {

std::string GroupNorm::Parameters() const {
  return ParameterText(
      {{"groups", groups}, {"epsilon", epsilon}, {"affine", affine}, {"bias", bias}});
}

absl::StatusOr<LayerSpec> GroupNorm::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  RETURN_IF_ERROR(CheckEpsilon(epsilon));
  const TensorSpec& x = context.inputs[0];
  if (groups < 1 || x.shape.c() % groups != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot normalise ", x.shape.c(), " channels in ", groups, " groups"));
  }
  return ImageNormSpec(x, {x.shape.n(), groups}, NormParams(x.shape.c(), affine, bias),
                       context.mode);
}

std::string InstanceNorm::Parameters() const {
  return ParameterText({{"epsilon", epsilon}, {"affine", affine}, {"bias", bias}});
}

absl::StatusOr<LayerSpec> InstanceNorm::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  RETURN_IF_ERROR(CheckEpsilon(epsilon));
  const TensorSpec& x = context.inputs[0];
  LayerSpec spec = ImageNormSpec(x, {x.shape.n(), x.shape.c()},
                                 NormParams(x.shape.c(), affine, bias), context.mode);
  if (context.mode == Mode::kTraining) spec.values_per_variance = x.shape.positions();
  return spec;
}

GroupNorm GroupNormOf(const Layer& layer, int64_t channels) {
  if (const auto* const group = layer.As<GroupNorm>()) return *group;
  const InstanceNorm& instance = *layer.As<InstanceNorm>();
  return {.groups = channels,
          .epsilon = instance.epsilon,
          .affine = instance.affine,
          .bias = instance.bias};
}

}  // namespace neap
