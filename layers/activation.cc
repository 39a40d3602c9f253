#include "neap/layers/activation.h"

#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/specify.h"

namespace neap {
namespace {

using namespace operands;

absl::StatusOr<LayerSpec> SpecifyElementwise(const LayerContext& context,
                                             double flops_per_element) {
  RETURN_IF_ERROR(CheckImageInputs(context, 1));
  const TensorSpec& x = context.inputs[0];
  const double flops = flops_per_element * static_cast<double>(x.elements());
  LayerSpec spec = {.output = x, .traits = {.independent_images = true}};
  spec.steps.push_back({.reads = {X()}, .writes = {Y()}, .in_place = {{Y(), X()}}, .flops = flops});
  if (context.mode == Mode::kInference) return spec;
  spec.steps.push_back({.phase = Phase::kBackwardData,
                        .reads = {Y(), Dy()},
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

absl::StatusOr<LayerSpec> Sigmoid::Specify(const LayerContext& context) const {
  return SpecifyElementwise(context, 4);
}

absl::StatusOr<LayerSpec> Tanh::Specify(const LayerContext& context) const {
  return SpecifyElementwise(context, 4);
}

}  // namespace neap
