#include "neap/layers/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/steps/loss_steps.h"

namespace neap {
namespace {

absl::Status CheckClassWeights(const std::vector<float>& weights, int64_t classes) {
  if (weights.empty()) return absl::OkStatus();
  if (std::ssize(weights) != classes || classes > SoftmaxCrossEntropy::kMaxClassWeights) {
    return absl::InvalidArgumentError(absl::StrCat(
        "has ", weights.size(), " class weights for ", classes, " classes, expected one each, of ",
        SoftmaxCrossEntropy::kMaxClassWeights, " classes at most"));
  }
  const bool are_valid = std::all_of(weights.begin(), weights.end(), [](float weight) {
    return weight >= 0 && std::isfinite(weight);
  });
  if (are_valid) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("class weights are ", absl::StrJoin(weights, ", "), ", expected numbers >= 0"));
}

}  // namespace

std::string SoftmaxCrossEntropy::Parameters() const {
  std::vector<std::string> texts;
  if (label_smoothing != 0) texts.push_back(ParameterText({{"label_smoothing", label_smoothing}}));
  if (weight != 1) texts.push_back(WeightText(weight));
  if (!class_weights.empty())
    texts.push_back(ParameterText({{"class_weights", absl::MakeConstSpan(class_weights)}}));
  return absl::StrJoin(texts, " ");
}

absl::StatusOr<LayerSpec> SoftmaxCrossEntropy::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckLabelledInputs(context, "logits", /*may_be_finer=*/true));
  if (!(label_smoothing >= 0 && label_smoothing < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("label smoothing is ", label_smoothing, ", expected 0 <= smoothing < 1"));
  }
  RETURN_IF_ERROR(CheckClassWeights(class_weights, context.inputs[0].shape.c()));
  return LossSpec(context, 5, weight);
}

}  // namespace neap
