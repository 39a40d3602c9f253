#include "neap/layers/tokens/linear_cross_entropy.h"

#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"
#include "neap/layers/steps/loss_steps.h"

namespace neap {
namespace {

using namespace operands;

std::vector<ParamSpec> Params(const LinearCrossEntropy& layer, const TensorSpec& x) {
  const std::vector<int64_t> ones(static_cast<size_t>(x.shape.spatial_axes()), 1);
  const Shape matrix = {layer.classes, x.shape.c()};
  std::vector<ParamSpec> params = {
      {.name = "weight",
       .tensor = WithShape(x, SpatialShape(layer.classes, x.shape.c(), ones)),
       .init = WeightInit(layer.init, matrix),
       .saved_shape = matrix}};
  if (layer.bias) {
    params.push_back({.name = "bias",
                      .tensor = VectorSpec(layer.classes),
                      .init = BiasInit(layer.init, matrix)});
  }
  return params;
}

StepSpec Training(const LinearCrossEntropy& layer, double flops, bool scales_loss) {
  StepSpec step = {.phase = Phase::kBackwardData,
                   .reads = {X(0), X(1), Param(0)},
                   .writes = {Dx(0), ParamGrad(0)},
                   .accumulates = {State(0)},
                   .in_place = {{Dx(0), X(0)}},
                   .accumulates_natively = {Slot::kParamGrad, Slot::kState},
                   .depends_on_part = true,
                   .flops = 3 * flops};
  if (layer.bias) {
    step.reads.push_back(Param(1));
    step.writes.push_back(ParamGrad(1));
  }
  if (scales_loss) step.reads.push_back(LossScaling());
  return step;
}

}  // namespace

std::string LinearCrossEntropy::Parameters() const {
  const std::string sizes = ParameterText({{"classes", classes}, {"bias", bias}});
  const std::string weighted = WeightText(weight);
  return weighted.empty() ? sizes : absl::StrCat(sizes, " ", weighted);
}

absl::StatusOr<LayerSpec> LinearCrossEntropy::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckLabelledInputs(context, "x", /*may_be_finer=*/false));
  RETURN_IF_ERROR(CheckLossWeight(weight));
  const TensorSpec& x = context.inputs[0];
  const int64_t largest = std::numeric_limits<int32_t>::max();
  if (classes <= 0 || classes > largest) {
    return absl::InvalidArgumentError(
        absl::StrCat("classes ", classes, " must be from 1 to ", largest));
  }
  LayerSpec spec = {
      .output = InFullPrecision(WithShape(x, SpatialShape(x.shape.n(), 1, x.shape.spatial()))),
      .params = Params(*this, x),
      .states = {{.name = "metrics", .tensor = VectorSpec(2), .in_checkpoint = false}},
      .loss_weight = weight,
      .index_count = classes,
      .traits = {.independent_images = true, .multiplies = true, .paper_reads_output = false}};
  const double flops = 2.0 * static_cast<double>(x.elements()) * static_cast<double>(classes);
  StepSpec forward = {.writes = {Y(), State(0)}, .accumulates_natively = {Slot::kState}};
  if (context.mode == Mode::kTraining) {
    spec.steps = {std::move(forward), Training(*this, flops, context.scales_loss)};
    return spec;
  }
  forward.reads = {X(0), X(1), Param(0)};
  if (bias) forward.reads.push_back(Param(1));
  forward.depends_on_part = true;
  forward.flops = flops;
  spec.steps = {std::move(forward)};
  return spec;
}

}  // namespace neap
