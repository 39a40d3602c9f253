#include "neap/layers/softmax_cross_entropy.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/steps/loss_steps.h"

namespace neap {

std::string SoftmaxCrossEntropy::Parameters() const {
  const std::string weighted = WeightText(weight);
  if (label_smoothing == 0) return weighted;
  const std::string smoothing = ParameterText({{"label_smoothing", label_smoothing}});
  return weighted.empty() ? smoothing : absl::StrCat(smoothing, " ", weighted);
}

absl::StatusOr<LayerSpec> SoftmaxCrossEntropy::Specify(const LayerContext& context) const {
  if (context.inputs.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("takes 2 inputs, logits and labels, got ", context.inputs.size()));
  }
  if (!(label_smoothing >= 0 && label_smoothing < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("label smoothing is ", label_smoothing, ", expected 0 <= smoothing < 1"));
  }
  const TensorSpec& logits = context.inputs[0];
  RETURN_IF_ERROR(CheckSpatialInputs({.inputs = {logits}}, 1));
  RETURN_IF_ERROR(CheckLabelShape(context.inputs[1], logits));
  return LossSpec(context, 5, weight);
}

}  // namespace neap
