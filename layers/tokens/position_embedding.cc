#include "neap/layers/tokens/position_embedding.h"

#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/specify.h"

namespace neap {

absl::StatusOr<LayerSpec> PositionEmbedding::Specify(const LayerContext& context) const {
  using namespace operands;
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  const TensorSpec& x = context.inputs[0];
  const TensorSpec weight = WithFirstExtent(x, 1);
  const auto elements = static_cast<double>(x.elements());
  LayerSpec spec = {.output = x,
                    .params = {{"weight", weight, WeightInit(init, weight.shape)}},
                    .traits = {.independent_images = true}};
  spec.steps.push_back(
      {.reads = {X(), Param(0)}, .writes = {Y()}, .in_place = {{Y(), X()}}, .flops = elements});
  if (context.mode == Mode::kInference) return spec;
  spec.steps.push_back({.phase = Phase::kBackwardData,
                        .reads = {Dy()},
                        .writes = {Dx(), ParamGrad(0)},
                        .in_place = {{Dx(), Dy()}},
                        .accumulates_natively = {Slot::kParamGrad},
                        .flops = elements});
  return spec;
}

}  // namespace neap
