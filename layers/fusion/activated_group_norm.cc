#include "neap/layers/fusion/activated_group_norm.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"

namespace neap {
namespace {

template <typename Variant>
Layer LayerIn(const Variant& variant) {
  return std::visit([](const auto& definition) -> Layer { return definition; }, variant);
}

// "relu" or "leaky_relu(negative_slope=0.01)".
std::string TypeAndParameters(const Layer& layer) {
  const std::string parameters = layer.Parameters();
  return absl::StrCat(std::string(layer.type()),
                      parameters.empty() ? "" : absl::StrCat("(", parameters, ")"));
}

}  // namespace

Layer ActivatedGroupNorm::norm_layer() const { return LayerIn(norm); }
Layer ActivatedGroupNorm::activation_layer() const { return LayerIn(activation); }

std::string ActivatedGroupNorm::Parameters() const {
  return absl::StrCat("norm=", TypeAndParameters(norm_layer()),
                      " activation=", TypeAndParameters(activation_layer()));
}

absl::StatusOr<LayerSpec> ActivatedGroupNorm::Specify(const LayerContext& context) const {
  using namespace operands;
  ASSIGN_OR_RETURN(LayerSpec spec, norm_layer().Specify(context));
  ASSIGN_OR_RETURN(const LayerSpec activated, activation_layer().Specify(context));
  for (size_t i = 0; i < spec.steps.size(); ++i) {
    StepSpec& step = spec.steps[i];
    step.flops += activated.steps[i].flops;
    if (step.phase == Phase::kForward || spec.params.size() < 2) continue;
    const auto gamma = std::find(step.reads.begin(), step.reads.end(), Param(0));
    step.reads.insert(gamma + 1, Param(1));
  }
  return spec;
}

Layer WithoutActivation(const Layer& layer) {
  const auto* const activated = layer.As<ActivatedGroupNorm>();
  return activated == nullptr ? layer : activated->norm_layer();
}

}  // namespace neap
