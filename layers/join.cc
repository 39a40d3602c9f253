#include "neap/layers/join.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/specify.h"
#include "neap/layers/steps/per_channel.h"

namespace neap {
namespace {

using namespace operands;

// Forward computes y from every x_i; backward writes or accumulates every dx_i from dy.
std::vector<StepSpec> Steps(const LayerContext& context, double flops) {
  StepSpec forward = {.writes = {Y()}, .flops = flops};
  StepSpec backward = {.phase = Phase::kBackwardData,
                       .reads = {Dy()},
                       .accumulates_natively = {Slot::kInputGrad},
                       .flops = flops};
  for (int i = 0; i < static_cast<int>(context.inputs.size()); ++i) {
    forward.reads.push_back(X(i));
    backward.writes.push_back(Dx(i));
  }
  if (context.mode == Mode::kInference) return {std::move(forward)};
  return {std::move(forward), std::move(backward)};
}

absl::Status CheckSameLayout(const LayerContext& context) {
  const TensorSpec& first = context.inputs[0];
  for (size_t i = 1; i < context.inputs.size(); ++i) {
    const TensorSpec& x = context.inputs[i];
    if (x.dtype == first.dtype && x.layout == first.layout) continue;
    return absl::InvalidArgumentError(absl::StrCat("input ", i, " is ", x.ToString(),
                                                   ", input 0 is ", first.ToString(),
                                                   ": dtype and layout must agree"));
  }
  return absl::OkStatus();
}

// x_0 + x_1, which has one value for each image and channel.
LayerSpec SpecOfSumPerChannel(const LayerContext& context, double flops) {
  LayerSpec spec = {.output = context.inputs[0],
                    .steps = Steps(context, flops),
                    .traits = {.checkpoint = true, .independent_images = true}};
  spec.steps[0].in_place = {{Y(), X(0)}};
  if (context.mode == Mode::kInference) return spec;
  spec.steps[1].optional_writes = spec.steps[1].writes;
  spec.steps[1].in_place = {{Dx(0), Dy()}};
  return spec;
}

}  // namespace

absl::StatusOr<LayerSpec> Add::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckSpatialInputsAtLeast(context, 2));
  RETURN_IF_ERROR(CheckSameLayout(context));
  const TensorSpec& first = context.inputs[0];
  const double flops =
      static_cast<double>(first.elements()) * static_cast<double>(context.inputs.size() - 1);
  for (size_t i = 1; i < context.inputs.size(); ++i) {
    const Shape& shape = context.inputs[i].shape;
    if (shape == first.shape) continue;
    if (context.inputs.size() == 2 && IsPerChannel(first.shape, shape))
      return SpecOfSumPerChannel(context, flops);
    return absl::InvalidArgumentError(absl::StrCat("cannot add input ", i, " of shape ",
                                                   shape.ToString(), " to input 0 of shape ",
                                                   first.shape.ToString()));
  }
  LayerSpec spec = {.output = first,
                    .steps = Steps(context, flops),
                    .passes_gradient = true,
                    .traits = {.checkpoint = true, .independent_images = true}};
  spec.steps[0].in_place = {{Y(), X(0)}};
  return spec;
}

absl::StatusOr<TensorSpec> ConcatenationOf(const LayerContext& context) {
  RETURN_IF_ERROR(CheckSpatialInputsAtLeast(context, 1));
  RETURN_IF_ERROR(CheckSameLayout(context));
  const Shape& first = context.inputs[0].shape;
  int64_t channels = 0;
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    const Shape& shape = context.inputs[i].shape;
    channels += shape.c();
    if (shape.n() == first.n() && shape.spatial() == first.spatial()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot concatenate input ", i, " of shape ", shape.ToString(), " with input 0 of shape ",
        first.ToString(), ": all but the channels must agree"));
  }
  return WithShape(context.inputs[0], SpatialShape(first.n(), channels, first.spatial()));
}

absl::StatusOr<LayerSpec> Concat::Specify(const LayerContext& context) const {
  ASSIGN_OR_RETURN(TensorSpec y, ConcatenationOf(context));
  return LayerSpec{
      .output = std::move(y), .steps = Steps(context, 0), .traits = {.independent_images = true}};
}

}  // namespace neap
