#include "neap/layers/activation.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "neap/core/base/float16.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"

namespace neap {
namespace {

using namespace operands;

// `of_gradient` is what backward reads besides dy: Y() or X().
absl::StatusOr<LayerSpec> SpecifyElementwise(const LayerContext& context, double flops_per_element,
                                             Operand of_gradient = Y()) {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  const TensorSpec& x = context.inputs[0];
  const double flops = flops_per_element * static_cast<double>(x.elements());
  LayerSpec spec = {.output = x, .traits = {.independent_images = true}};
  spec.steps.push_back({.reads = {X()}, .writes = {Y()}, .in_place = {{Y(), X()}}, .flops = flops});
  if (context.mode == Mode::kInference) return spec;
  spec.steps.push_back({.phase = Phase::kBackwardData,
                        .reads = {of_gradient, Dy()},
                        .writes = {Dx()},
                        .in_place = {{Dx(), Dy()}},
                        .flops = flops});
  return spec;
}

}  // namespace

absl::StatusOr<LayerSpec> Relu::Specify(const LayerContext& context) const {
  ASSIGN_OR_RETURN(LayerSpec spec, SpecifyElementwise(context, 1));
  spec.traits.paper_in_place = true;
  return spec;
}

std::string LeakyRelu::Parameters() const {
  return ParameterText({{"negative_slope", negative_slope}});
}

absl::StatusOr<LayerSpec> LeakyRelu::Specify(const LayerContext& context) const {
  if (!std::isfinite(negative_slope) || negative_slope < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("negative_slope ", negative_slope, " must be finite and not negative"));
  }
  return SpecifyElementwise(context, 1);
}

std::string Clip::Parameters() const { return ParameterText({{"low", low}, {"high", high}}); }

Clip Clip::RoundedTo(DType dtype) const {
  const auto round = [dtype](float value) {
    if (dtype == DType::kFp16) return static_cast<float>(Fp16(value));
    return dtype == DType::kBf16 ? static_cast<float>(Bf16(value)) : value;
  };
  return {.low = round(low), .high = round(high)};
}

absl::StatusOr<LayerSpec> Clip::Specify(const LayerContext& context) const {
  if (low < high) return SpecifyElementwise(context, 2);
  return absl::InvalidArgumentError(absl::StrCat("low ", low, " must be less than high ", high));
}

absl::StatusOr<LayerSpec> Sigmoid::Specify(const LayerContext& context) const {
  return SpecifyElementwise(context, 4);
}

absl::StatusOr<LayerSpec> Tanh::Specify(const LayerContext& context) const {
  return SpecifyElementwise(context, 4);
}

absl::StatusOr<LayerSpec> HardSigmoid::Specify(const LayerContext& context) const {
  return SpecifyElementwise(context, 4, X());
}

absl::StatusOr<LayerSpec> HardSwish::Specify(const LayerContext& context) const {
  return SpecifyElementwise(context, 5, X());
}

absl::StatusOr<LayerSpec> Silu::Specify(const LayerContext& context) const {
  return SpecifyElementwise(context, 5, X());
}

std::string_view Name(Gelu::Approximation approximation) {
  return approximation == Gelu::Approximation::kTanh ? "tanh" : "none";
}

absl::StatusOr<Gelu::Approximation> ParseApproximation(std::string_view name) {
  for (const auto approximation : {Gelu::Approximation::kNone, Gelu::Approximation::kTanh}) {
    if (Name(approximation) == name) return approximation;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("approximation '", std::string(name), "' is neither 'none' nor 'tanh'"));
}

std::string Gelu::Parameters() const {
  return absl::StrCat("approximation=", std::string(Name(approximation)));
}

absl::StatusOr<LayerSpec> Gelu::Specify(const LayerContext& context) const {
  return SpecifyElementwise(context, 10, X());
}

std::string Elu::Parameters() const { return ParameterText({{"alpha", alpha}}); }

absl::StatusOr<LayerSpec> Elu::Specify(const LayerContext& context) const {
  if (std::isfinite(alpha)) return SpecifyElementwise(context, 4, X());
  return absl::InvalidArgumentError(absl::StrCat("alpha ", alpha, " must be finite"));
}

std::string Softplus::Parameters() const {
  return ParameterText({{"beta", beta}, {"threshold", threshold}});
}

absl::StatusOr<LayerSpec> Softplus::Specify(const LayerContext& context) const {
  if (!std::isfinite(beta) || beta <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("beta ", beta, " must be finite and positive"));
  }
  if (std::isfinite(threshold)) return SpecifyElementwise(context, 6, X());
  return absl::InvalidArgumentError(absl::StrCat("threshold ", threshold, " must be finite"));
}

absl::StatusOr<LayerSpec> Mish::Specify(const LayerContext& context) const {
  return SpecifyElementwise(context, 10, X());
}

}  // namespace neap
