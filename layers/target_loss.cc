#include "neap/layers/target_loss.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/specify.h"

namespace neap {
namespace {

using namespace operands;

absl::StatusOr<LayerSpec> SpecifyTargetLoss(const LayerContext& context,
                                            double flops_of_an_element) {
  if (context.inputs.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("takes 2 inputs, predictions and targets, got ", context.inputs.size()));
  }
  const TensorSpec& x = context.inputs[0];
  RETURN_IF_ERROR(CheckImageInputs({.inputs = {x}}, 1));
  const TensorSpec wanted = {x.shape, DType::kFp32, x.layout};
  if (context.inputs[1] != wanted) {
    return absl::InvalidArgumentError(absl::StrCat("targets are ", context.inputs[1].ToString(),
                                                   ", expected ", wanted.ToString(),
                                                   " for predictions of ", x.ToString()));
  }
  const double elements = static_cast<double>(x.elements());
  const bool same_type = !Is16Bit(x.dtype);  // of x and y
  LayerSpec spec = {
      .output = InFullPrecision(x),
      .states = {{.name = "metrics", .tensor = VectorSpec(2), .in_checkpoint = false}},
      .traits = {.independent_images = true}};
  spec.steps.push_back({.reads = {X(0), X(1)},
                        .writes = {Y(), State(0)},
                        .accumulates_natively = {Slot::kState},
                        .depends_on_part = true,
                        .flops = flops_of_an_element * elements});
  if (same_type) spec.steps[0].in_place = {{Y(), X(0)}};
  if (context.mode == Mode::kInference) return spec;
  spec.steps.push_back({.phase = Phase::kBackwardData,
                        .reads = {Y(), X(1)},
                        .writes = {Dx(0)},
                        .depends_on_part = true,
                        .flops = 2 * elements});
  if (same_type) spec.steps[1].in_place = {{Dx(0), Y()}};
  if (context.scales_loss) spec.steps[1].reads.push_back(LossScaling());
  return spec;
}

}  // namespace

absl::StatusOr<LayerSpec> MeanSquaredError::Specify(const LayerContext& context) const {
  return SpecifyTargetLoss(context, 3);
}

absl::StatusOr<LayerSpec> BinaryCrossEntropy::Specify(const LayerContext& context) const {
  return SpecifyTargetLoss(context, 8);
}

}  // namespace neap
