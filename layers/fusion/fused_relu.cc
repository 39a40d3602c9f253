#include "neap/layers/fusion/fused_relu.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/specify.h"

namespace neap {

using namespace operands;

std::string FusedRelu::Parameters() const {
  return absl::StrCat("bias=", bias ? "true" : "false", " pool=(", pool.Parameters(), ")");
}

absl::StatusOr<LayerSpec> FusedRelu::Specify(const LayerContext& context) const {
  ASSIGN_OR_RETURN(LayerSpec spec, pool.Specify(context));
  const TensorSpec& x = context.inputs[0];
  if (!CanPoolRelu(pool, x.shape.spatial_axes())) {
    return absl::InvalidArgumentError("a fused ReLU pools windows of at most 255 elements");
  }
  if (bias) spec.params = {{.name = "bias", .tensor = VectorSpec(x.shape.c())}};
  for (StepSpec& step : spec.steps) {
    const int passes = bias ? 2 : 1;  // passes that the pooling's Specify() did not count
    step.flops += passes * static_cast<double>(x.elements());
    if (!bias) continue;
    if (step.phase == Phase::kForward) {
      step.reads.push_back(Param(0));
    } else {
      step.writes.push_back(ParamGrad(0));
    }
  }
  return spec;
}

}  // namespace neap
