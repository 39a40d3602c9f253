#include "neap/layers/fusion/biased_gelu.h"

#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/specify.h"

namespace neap {

absl::StatusOr<LayerSpec> BiasedGelu::Specify(const LayerContext& context) const {
  using namespace operands;
  ASSIGN_OR_RETURN(LayerSpec spec, gelu.Specify(context));
  const TensorSpec& x = context.inputs[0];
  spec.params = {{.name = "bias", .tensor = VectorSpec(x.shape.c())}};
  for (StepSpec& step : spec.steps) {
    const bool forward = step.phase == Phase::kForward;
    step.reads.push_back(Param(0));
    step.flops += (forward ? 1 : 2) * static_cast<double>(x.elements());
    if (forward) continue;
    step.writes.push_back(ParamGrad(0));
    step.accumulates_natively = {Slot::kParamGrad};
  }
  return spec;
}

}  // namespace neap
