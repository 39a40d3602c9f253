#include "neap/layers/fully_connected.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/steps/linear_steps.h"

namespace neap {
namespace {

using namespace operands;

std::vector<ParamSpec> Params(const FullyConnected& layer, const TensorSpec& input) {
  const Shape& shape = input.shape;
  const Shape weight = {layer.out_features, shape.c() * shape.positions()};
  std::vector<ParamSpec> params = {{.name = "weight",
                                    .tensor = WithFirstExtent(input, layer.out_features),
                                    .init = WeightInit(layer.init, weight),
                                    .saved_shape = weight}};
  if (layer.bias) {
    params.push_back({.name = "bias",
                      .tensor = VectorSpec(layer.out_features),
                      .init = BiasInit(layer.init, weight)});
  }
  return params;
}

}  // namespace

std::string FullyConnected::Parameters() const {
  return ParameterText({{"out_features", out_features}, {"bias", bias}});
}

absl::StatusOr<LayerSpec> FullyConnected::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 1));
  if (out_features <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("out_features ", out_features, " must be positive"));
  }
  const TensorSpec& x = context.inputs[0];
  LayerSpec spec = {.output = WithShape(x, {x.shape.n(), out_features, 1, 1}),
                    .params = Params(*this, x),
                    .traits = {.checkpoint = true,
                               .independent_images = true,
                               .multiplies = true,
                               .paper_reads_output = false}};
  const double flops = 2.0 * static_cast<double>(x.elements()) * static_cast<double>(out_features);
  AddLinearSteps(bias, context.mode, flops, spec);
  for (StepSpec& step : spec.steps) {
    if (step.phase == Phase::kBackwardParams) step.accumulates_natively = {Slot::kParamGrad};
  }
  return spec;
}

}  // namespace neap
