#include "neap/layers/fusion/activated_group_norm.h"

#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/specify.h"

namespace neap {
namespace {

// Empty for std::monostate.
template <typename Variant>
std::optional<Layer> LayerIn(const Variant& variant) {
  return std::visit(
      []<typename Definition>(const Definition& definition) -> std::optional<Layer> {
        if constexpr (std::is_same_v<Definition, std::monostate>) {
          return std::nullopt;
        } else {
          return Layer(definition);
        }
      },
      variant);
}

// "relu" or "leaky_relu(negative_slope=0.01)".
std::string TypeAndParameters(const Layer& layer) {
  const std::string parameters = layer.Parameters();
  return absl::StrCat(std::string(layer.type()),
                      parameters.empty() ? "" : absl::StrCat("(", parameters, ")"));
}

// The bias is the convolution's, which comes before the norm.
void AbsorbBias(int64_t channels, LayerSpec& spec) {
  using namespace operands;
  for (ParamSpec& param : spec.params) param.owner = 1;
  spec.params.push_back({.name = "bias", .tensor = VectorSpec(channels)});
  for (StepSpec& step : spec.steps) {
    if (step.phase != Phase::kForward) {
      step.writes.push_back(kAbsorbedBiasGrad);
      continue;
    }
    step.reads.push_back(Param(2));
    if (!step.rerun_reads.empty()) step.rerun_reads.push_back(Param(2));
  }
}

}  // namespace

bool CanAbsorbBias(const ActivatedGroupNorm::Norm& norm) {
  const auto* const instance = std::get_if<InstanceNorm>(&norm);
  return instance != nullptr && instance->affine && instance->bias;
}

Layer ActivatedGroupNorm::norm_layer() const { return *LayerIn(norm); }
std::optional<Layer> ActivatedGroupNorm::activation_layer() const { return LayerIn(activation); }

std::string ActivatedGroupNorm::Parameters() const {
  const std::optional<Layer> behind = activation_layer();
  return absl::StrCat("norm=", TypeAndParameters(norm_layer()),
                      " activation=", behind.has_value() ? TypeAndParameters(*behind) : "none",
                      absorbs_bias ? " absorbs_bias=true" : "");
}

absl::StatusOr<LayerSpec> ActivatedGroupNorm::Specify(const LayerContext& context) const {
  using namespace operands;
  ASSIGN_OR_RETURN(LayerSpec spec, norm_layer().Specify(context));
  const std::optional<Layer> behind = activation_layer();
  if (!behind.has_value() && !absorbs_bias)
    return absl::InvalidArgumentError("a group norm without an activation is no fused layer");
  if (absorbs_bias && !CanAbsorbBias(norm))
    return absl::InvalidArgumentError("only an instance norm with a weight and a bias absorbs one");
  if (absorbs_bias) AbsorbBias(context.inputs[0].shape.c(), spec);
  if (!behind.has_value()) return spec;
  ASSIGN_OR_RETURN(const LayerSpec activated, behind->Specify(context));
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
