#include "neap/layers/norm/layer_norm.h"

#include "neap/core/base/status_macros.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/steps/norm_steps.h"

namespace neap {

std::string LayerNorm::Parameters() const {
  return ParameterText({{"epsilon", epsilon}, {"affine", affine}, {"bias", bias}});
}

absl::StatusOr<LayerSpec> LayerNorm::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  RETURN_IF_ERROR(CheckEpsilon(epsilon));
  const TensorSpec& x = context.inputs[0];
  LayerSpec spec = ImageNormSpec(x, SpatialShape(x.shape.n(), 1, x.shape.spatial()),
                                 NormParams(x.shape.c(), affine, bias), context.mode);
  // The gradient of the residual sum that is also the norm's input.
  if (context.mode == Mode::kTraining)
    spec.steps.back().accumulates_natively.push_back(Slot::kAddend);
  return spec;
}

}  // namespace neap
