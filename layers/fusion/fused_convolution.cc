#include "neap/layers/fusion/fused_convolution.h"

#include <algorithm>
#include <utility>

#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"

namespace neap {

using namespace operands;

absl::StatusOr<LayerSpec> FusedConvolution::Specify(const LayerContext& context) const {
  ASSIGN_OR_RETURN(LayerSpec spec, convolution.Specify(context));
  const double elements = static_cast<double>(spec.output.elements());
  StepSpec activation = {.phase = Phase::kBackwardActivation,
                         .reads = {Y(), Dy()},
                         .writes = {Dz()},
                         .in_place = {{Dz(), Dy()}},
                         .flops = elements};
  if (convolution.bias) {
    activation.writes.push_back(ParamGrad(1));
    activation.flops += elements;
  }
  for (StepSpec& step : spec.steps) {
    if (step.phase == Phase::kForward) step.flops += activation.flops;
    std::replace(step.reads.begin(), step.reads.end(), Dy(), Dz());
    std::erase(step.writes, ParamGrad(1));
  }
  if (context.mode == Mode::kTraining)
    spec.steps.insert(spec.steps.begin() + 1, std::move(activation));
  return spec;
}

}  // namespace neap
