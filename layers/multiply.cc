#include "neap/layers/multiply.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/specify.h"
#include "neap/layers/steps/per_channel.h"

namespace neap {
namespace {

using namespace operands;

absl::Status CheckFactors(const TensorSpec& a, const TensorSpec& b) {
  if (b.shape != a.shape && !IsPerChannel(a.shape, b.shape)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot multiply input 0 of shape ", a.shape.ToString(), " by input 1 of shape ",
        b.shape.ToString(), ": it must be of that shape or ", PerChannelText(a.shape)));
  }
  if (a.dtype == b.dtype && a.layout == b.layout) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("input 1 is ", b.ToString(), ", input 0 is ",
                                                 a.ToString(), ": dtype and layout must agree"));
}

}  // namespace

absl::StatusOr<LayerSpec> Multiply::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 2));
  const TensorSpec& a = context.inputs[0];
  RETURN_IF_ERROR(CheckFactors(a, context.inputs[1]));
  const double flops = static_cast<double>(a.elements());
  LayerSpec spec = {.output = a, .traits = {.independent_images = true}};
  spec.steps.push_back(
      {.reads = {X(0), X(1)}, .writes = {Y()}, .in_place = {{Y(), X(0)}}, .flops = flops});
  if (context.mode == Mode::kInference) return spec;
  spec.steps.push_back({.phase = Phase::kBackwardData,
                        .reads = {X(0), X(1), Dy()},
                        .writes = {Dx(0), Dx(1)},
                        .in_place = {{Dx(0), Dy()}, {Dx(0), X(0)}},
                        .accumulates_natively = {Slot::kInputGrad},
                        .flops = 3 * flops});
  return spec;
}

}  // namespace neap
