#include "neap/layers/dropout.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"

namespace neap {

using namespace operands;

std::string Dropout::Parameters() const { return ParameterText({{"probability", probability}}); }

absl::StatusOr<LayerSpec> Dropout::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  if (!(probability >= 0 && probability < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("probability ", probability, " is outside [0, 1)"));
  }
  const TensorSpec& x = context.inputs[0];
  const double elements = static_cast<double>(x.elements());
  LayerSpec spec = {.output = x, .traits = {.independent_images = true}};
  spec.steps.push_back(
      {.reads = {X()}, .writes = {Y()}, .in_place = {{Y(), X()}}, .flops = elements});
  if (context.mode == Mode::kInference) return spec;
  spec.steps[0].reads.push_back(Iteration());
  spec.steps[0].depends_on_part = true;
  spec.steps.push_back({.phase = Phase::kBackwardData,
                        .reads = {Dy(), Iteration()},
                        .writes = {Dx()},
                        .in_place = {{Dx(), Dy()}},
                        .depends_on_part = true,
                        .flops = elements});
  return spec;
}

}  // namespace neap
