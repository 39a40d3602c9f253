#include "neap/layers/softmax_cross_entropy.h"

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/graph/source.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/parameter_text.h"
#include "neap/core/step/specify.h"

namespace neap {
namespace {

using namespace operands;

absl::Status CheckLabels(const TensorSpec& labels, const TensorSpec& logits) {
  const Shape expected = LabelShape(logits.shape);
  if (labels.dtype == DType::kInt32 && labels.shape == expected) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("labels are ", labels.ToString(),
                                                 ", expected int32 ", expected.ToString(),
                                                 " for logits of ", logits.shape.ToString()));
}

}  // namespace

std::string SoftmaxCrossEntropy::Parameters() const {
  return label_smoothing == 0 ? "" : ParameterText({{"label_smoothing", label_smoothing}});
}

absl::StatusOr<LayerSpec> SoftmaxCrossEntropy::Specify(const LayerContext& context) const {
  if (context.inputs.size() != 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("takes 2 inputs, logits and labels, got ", context.inputs.size()));
  }
  if (!(label_smoothing >= 0 && label_smoothing < 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("label smoothing is ", label_smoothing, ", expected 0 <= smoothing < 1"));
  }
  const TensorSpec& logits = context.inputs[0];
  RETURN_IF_ERROR(CheckImageInputs({.inputs = {logits}}, 1));
  RETURN_IF_ERROR(CheckLabels(context.inputs[1], logits));

  const double elements = static_cast<double>(logits.elements());
  const bool same_type = !Is16Bit(logits.dtype);  // of logits and probabilities
  LayerSpec spec = {
      .output = InFullPrecision(logits),
      .states = {{.name = "metrics", .tensor = VectorSpec(2), .in_checkpoint = false}},
      .traits = {.independent_images = true}};
  spec.steps.push_back({.reads = {X(0), X(1)},
                        .writes = {Y(), State(0)},
                        .accumulates_natively = {Slot::kState},
                        .depends_on_part = true,
                        .flops = 5 * elements});
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

}  // namespace neap
