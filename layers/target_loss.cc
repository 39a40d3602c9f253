#include "neap/layers/target_loss.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/parameter_text.h"
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
std::string BinaryCrossEntropy::Parameters() const {
  if (positive_weight == 1) return WeightText(weight);
  const std::string text = ParameterText({{"positive_weight", positive_weight}});
  return weight == 1 ? text : absl::StrCat(text, " ", WeightText(weight));
}
std::string FocalLoss::Parameters() const {
  return ParameterText({{"alpha", alpha}, {"gamma", gamma}, {"weight", weight}});
}

absl::StatusOr<LayerSpec> MeanSquaredError::Specify(const LayerContext& context) const {
  return SpecifyTargetLoss(context, 3, weight);
}

absl::StatusOr<LayerSpec> BinaryCrossEntropy::Specify(const LayerContext& context) const {
  if (!(positive_weight >= 0 && std::isfinite(positive_weight))) {
    return absl::InvalidArgumentError(absl::StrCat("the weight of positive targets is ",
                                                   positive_weight, ", expected a number >= 0"));
  }
  return SpecifyTargetLoss(context, 8, weight);
}

absl::StatusOr<LayerSpec> FocalLoss::Specify(const LayerContext& context) const {
  const bool are_valid = alpha >= 0 && alpha <= 1 && gamma >= 0 && std::isfinite(gamma);
  if (!are_valid) {
    return absl::InvalidArgumentError(absl::StrCat("alpha is ", alpha, " and gamma ", gamma,
                                                   ", expected 0 <= alpha <= 1 and gamma >= 0"));
  }
  return SpecifyTargetLoss(context, 20, weight);
}

}  // namespace neap
