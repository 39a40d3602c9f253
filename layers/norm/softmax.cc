#include "neap/layers/norm/softmax.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"

namespace neap {

std::string Softmax::Parameters() const {
  return ParameterText({{"axis", axis}, {"logarithm", logarithm}});
}

absl::StatusOr<LayerSpec> Softmax::Specify(const LayerContext& context) const {
  using namespace operands;
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  const TensorSpec& x = context.inputs[0];
  if (axis < 1 || axis >= x.shape.rank()) {
    return absl::InvalidArgumentError(
        absl::StrCat("axis ", axis, " is none from 1 to ", x.shape.rank() - 1));
  }
  const auto elements = static_cast<double>(x.elements());
  LayerSpec spec = {.output = x, .traits = {.independent_images = true}};
  spec.steps.push_back(
      {.reads = {X()}, .writes = {Y()}, .in_place = {{Y(), X()}}, .flops = 5 * elements});
  if (context.mode == Mode::kInference) return spec;
  spec.steps.push_back({.phase = Phase::kBackwardData,
                        .reads = {Y(), Dy()},
                        .writes = {Dx()},
                        .in_place = {{Dx(), Dy()}, {Dx(), Y()}},
                        .flops = 4 * elements});
  return spec;
}

}  // namespace neap
