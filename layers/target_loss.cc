#include "neap/layers/target_loss.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/specify.h"
#include "neap/layers/steps/loss_steps.h"

namespace neap {
namespace {

absl::StatusOr<LayerSpec> SpecifyTargetLoss(const LayerContext& context, double flops_of_an_element,
                                            float weight) {
  if (context.inputs.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("takes 2 inputs, predictions and targets, got ", context.inputs.size()));
  }
  const TensorSpec& x = context.inputs[0];
  RETURN_IF_ERROR(CheckSpatialInputs({.inputs = {x}}, 1));
  const TensorSpec wanted = {x.shape, DType::kFp32, x.layout};
  if (context.inputs[1] != wanted) {
    return absl::InvalidArgumentError(absl::StrCat("targets are ", context.inputs[1].ToString(),
                                                   ", expected ", wanted.ToString(),
                                                   " for predictions of ", x.ToString()));
  }
  return LossSpec(context, flops_of_an_element, weight);
}

}  // namespace

std::string MeanSquaredError::Parameters() const { return WeightText(weight); }
std::string BinaryCrossEntropy::Parameters() const { return WeightText(weight); }

absl::StatusOr<LayerSpec> MeanSquaredError::Specify(const LayerContext& context) const {
  return SpecifyTargetLoss(context, 3, weight);
}

absl::StatusOr<LayerSpec> BinaryCrossEntropy::Specify(const LayerContext& context) const {
  return SpecifyTargetLoss(context, 8, weight);
}

}  // namespace neap
