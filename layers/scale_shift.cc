#include "neap/layers/scale_shift.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"

namespace neap {

std::string ScaleShift::Parameters() const {
  return ParameterText({{"scale", scale}, {"shift", shift}});
}

absl::StatusOr<LayerSpec> ScaleShift::Specify(const LayerContext& context) const {
  using namespace operands;
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  if (!std::isfinite(scale) || !std::isfinite(shift)) {
    return absl::InvalidArgumentError(
        absl::StrCat("scale ", scale, " and shift ", shift, " must be finite"));
  }
  const TensorSpec& x = context.inputs[0];
  const auto elements = static_cast<double>(x.elements());
  LayerSpec spec = {.output = x, .traits = {.independent_images = true}};
  spec.steps.push_back(
      {.reads = {X()}, .writes = {Y()}, .in_place = {{Y(), X()}}, .flops = 2 * elements});
  if (context.mode == Mode::kInference) return spec;
  spec.steps.push_back({.phase = Phase::kBackwardData,
                        .reads = {Dy()},
                        .writes = {Dx()},
                        .in_place = {{Dx(), Dy()}},
                        .flops = elements});
  return spec;
}

}  // namespace neap
