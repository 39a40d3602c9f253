#include "neap/layers/bias_relu.h"

#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/specify.h"

namespace neap {

using namespace operands;

absl::StatusOr<LayerSpec> BiasRelu::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckImageInputs(context, 1));
  const TensorSpec& x = context.inputs[0];
  const double flops = 2 * static_cast<double>(x.elements());
  LayerSpec spec = {.output = x, .params = {{.name = "bias", .tensor = VectorSpec(x.shape.c())}}};
  spec.steps.push_back(
      {.reads = {X(), Param(0)}, .writes = {Y()}, .in_place = {{Y(), X()}}, .flops = flops});
  if (context.mode == Mode::kInference) return spec;
  spec.steps.push_back({.phase = Phase::kBackwardData,
                        .reads = {Y(), Dy()},
                        .writes = {Dx(), ParamGrad(0)},
                        .in_place = {{Dx(), Dy()}},
                        .flops = flops});
  return spec;
}

}  // namespace neap
