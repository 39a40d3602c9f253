#include "neap/layers/steps/loss_steps.h"

#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/graph/label_grid.h"
#include "neap/core/graph/source.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"

namespace neap {

using namespace operands;

absl::Status CheckLossWeight(float weight) {
  if (weight > 0 && std::isfinite(weight)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("its weight is ", weight, ", expected a positive number"));
}

absl::StatusOr<LayerSpec> LossSpec(const LayerContext& context, double forward_flops,
                                   float weight) {
  RETURN_IF_ERROR(CheckLossWeight(weight));
  const TensorSpec& x = context.inputs[0];
  const double elements = static_cast<double>(x.elements());
  const bool same_type = !Is16Bit(x.dtype);  // of x and y
  LayerSpec spec = {
      .output = InFullPrecision(x),
      .states = {{.name = "metrics", .tensor = VectorSpec(2), .in_checkpoint = false}},
      .loss_weight = weight,
      .traits = {.independent_images = true}};
  spec.steps.push_back({.reads = {X(0), X(1)},
                        .writes = {Y(), State(0)},
                        .accumulates_natively = {Slot::kState},
                        .depends_on_part = true,
                        .flops = forward_flops * elements});
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

absl::Status CheckLabelledInputs(const LayerContext& context, std::string_view predictions,
                                 bool may_be_finer) {
  if (context.inputs.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat("takes 2 inputs, ", std::string(predictions),
                                                   " and labels, got ", context.inputs.size()));
  }
  const TensorSpec& x = context.inputs[0];
  const TensorSpec& labels = context.inputs[1];
  RETURN_IF_ERROR(CheckSpatialInputs({.inputs = {x}}, 1));
  const std::optional<LabelGrid> grid = LabelGridOf(x.shape, labels.shape);
  const bool fits = grid.has_value() && (may_be_finer || !grid->is_finer());
  if (labels.dtype == DType::kInt32 && fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("labels are ", labels.ToString(), ", expected int32 ",
                   LabelShape(x.shape).ToString(), " for logits of ", x.shape.ToString()));
}

std::string WeightText(float weight) {
  return weight == 1 ? "" : ParameterText({{"weight", weight}});
}

}  // namespace neap
