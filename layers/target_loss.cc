#include "neap/layers/target_loss.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/specify.h"
#include "neap/layers/loss_steps.h"

namespace neap {
namespace {

absl::StatusOr<LayerSpec> SpecifyTargetLoss(const LayerContext& context, double flops_of_an_element,
                                            std::optional<float> auxiliary_weight) {
  if (context.inputs.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("takes 2 inputs, predictions and targets, got ", context.inputs.size()));
  }
  const TensorSpec& x = context.inputs[0];
  RETURN_IF_ERROR(CheckImageInputs({.inputs = {x}}, 1));
  const TensorSpec wanted = {x.shape, DType::kFp32, x.layout};
  if (context.inputs[1] != wanted) {
    return absl::InvalidArgumentError(absl::StrCat("targets are ", context.inputs[1].ToString(),
                                                   ", expected ", wanted.ToString(),
                                                   " for predictions of ", x.ToString()));
  }
  return LossSpec(context, flops_of_an_element, auxiliary_weight);
}

}  // namespace

std::string MeanSquaredError::Parameters() const { return WeightText(auxiliary_weight); }
std::string BinaryCrossEntropy::Parameters() const { return WeightText(auxiliary_weight); }

absl::StatusOr<LayerSpec> MeanSquaredError::Specify(const LayerContext& context) const {
  return SpecifyTargetLoss(context, 3, auxiliary_weight);
}

absl::StatusOr<LayerSpec> BinaryCrossEntropy::Specify(const LayerContext& context) const {
  return SpecifyTargetLoss(context, 8, auxiliary_weight);
}

}  // namespace neap
