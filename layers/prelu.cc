#include "neap/layers/prelu.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"

namespace neap {

std::string Prelu::Parameters() const { return ParameterText({{"slopes", slopes}}); }

absl::StatusOr<LayerSpec> Prelu::Specify(const LayerContext& context) const {
  using namespace operands;
  constexpr float kInitialSlope = 0.25F;  // PyTorch's
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  const TensorSpec& x = context.inputs[0];
  if (slopes != 1 && slopes != x.shape.c()) {
    return absl::InvalidArgumentError(
        absl::StrCat("slopes ", slopes, " must be 1 or the number of channels, ", x.shape.c()));
  }
  const auto elements = static_cast<double>(x.elements());
  LayerSpec spec = {
      .output = x,
      .params = {{"weight", VectorSpec(slopes), {Init::Kind::kConstant, kInitialSlope}}},
      .traits = {.independent_images = true}};
  spec.steps.push_back(
      {.reads = {X(), Param(0)}, .writes = {Y()}, .in_place = {{Y(), X()}}, .flops = elements});
  if (context.mode == Mode::kInference) return spec;
  spec.steps.push_back({.phase = Phase::kBackwardData,
                        .reads = {X(), Param(0), Dy()},
                        .writes = {Dx(), ParamGrad(0)},
                        .in_place = {{Dx(), Dy()}},
                        .accumulates_natively = {Slot::kParamGrad},
                        .flops = 3 * elements});
  return spec;
}

}  // namespace neap
