#include "neap/layers/fully_connected.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "neap/core/status_macros.h"
#include "neap/layers/checks.h"
#include "neap/layers/operands.h"

namespace neap {
namespace {

using namespace operands;

std::vector<ParamSpec> Params(const FullyConnected& layer, const TensorSpec& input) {
  const Shape& shape = input.shape;
  const int64_t fan_in = shape.c() * shape.h() * shape.w();
  std::vector<ParamSpec> params = {
      {.name = "weight",
       .tensor = WithShape(input, {layer.out_features, shape.c(), shape.h(), shape.w()}),
       .init = {Init::Kind::kNormal, std::sqrt(2.0F / static_cast<float>(fan_in))},
       .saved_shape = {layer.out_features, fan_in}}};
  if (layer.bias) params.push_back({.name = "bias", .tensor = VectorSpec(layer.out_features)});
  return params;
}

}  // namespace

absl::StatusOr<LayerSpec> FullyConnected::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckImageInputs(context, 1));
  if (out_features <= 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("out_features ", out_features, " must be positive"));
  }
  const TensorSpec& x = context.inputs[0];
  LayerSpec spec = {.output = WithShape(x, {x.shape.n(), out_features, 1, 1}),
                    .params = Params(*this, x)};
  const double flops = 2.0 * static_cast<double>(x.elements()) * static_cast<double>(out_features);
  StepSpec forward = {.reads = {X(), Param(0)}, .writes = {Y()}, .flops = flops};
  if (bias) forward.reads.push_back(Param(1));
  spec.steps.push_back(std::move(forward));
  if (context.mode == Mode::kInference) return spec;

  StepSpec params_step = {.phase = Phase::kBackwardParams,
                          .reads = {X(), Dy()},
                          .writes = {ParamGrad(0)},
                          .flops = flops};
  if (bias) params_step.writes.push_back(ParamGrad(1));
  spec.steps.push_back(std::move(params_step));
  spec.steps.push_back(
      {.phase = Phase::kBackwardData, .reads = {Dy(), Param(0)}, .writes = {Dx()}, .flops = flops});
  return spec;
}

}  // namespace neap
