#include "neap/layers/fusion/residual_tail.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/specify.h"

namespace neap {
namespace {

using namespace operands;

absl::Status CheckTail(const ResidualTail& tail, const LayerContext& context) {
  RETURN_IF_ERROR(CheckSpatialInputs(context, 2));
  const TensorSpec &branch = context.inputs[0], &bypass = context.inputs[1];
  if (branch != bypass) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot add input 1, ", bypass.ToString(), ", to ", branch.ToString()));
  }
  if (!tail.scale.has_value() && !tail.drop.has_value())
    return absl::InvalidArgumentError("a residual tail scales or drops");
  if (tail.scale.has_value() && tail.scale->learns_shift)
    return absl::InvalidArgumentError("a residual tail learns no shift");
  return absl::OkStatus();
}

// Adds what the steps of `drop` read and compute to those of the layer.
void Drop(const LayerSpec& drop, LayerSpec& spec) {
  for (size_t i = 0; i < spec.steps.size(); ++i) {
    StepSpec& step = spec.steps[i];
    step.flops += drop.steps[i].flops;
    step.depends_on_part = drop.steps[i].depends_on_part;
    if (step.depends_on_part) step.reads.push_back(Iteration());
  }
}

}  // namespace

std::string ResidualTail::Parameters() const {
  std::string text;
  if (scale.has_value()) absl::StrAppend(&text, "scale_shift=(", scale->Parameters(), ")");
  if (drop.has_value()) {
    absl::StrAppend(&text, text.empty() ? "" : " ", "stochastic_depth=(", drop->Parameters(), ")");
  }
  return text;
}

absl::StatusOr<LayerSpec> ResidualTail::Specify(const LayerContext& context) const {
  RETURN_IF_ERROR(CheckTail(*this, context));
  LayerContext branch = context;
  branch.inputs.pop_back();
  ASSIGN_OR_RETURN(LayerSpec spec,
                   scale.has_value() ? scale->Specify(branch) : drop->Specify(branch));
  if (scale.has_value() && drop.has_value()) {
    ASSIGN_OR_RETURN(const LayerSpec dropped, drop->Specify(branch));
    Drop(dropped, spec);
  }
  StepSpec& forward = spec.steps[0];
  forward.reads.insert(forward.reads.begin() + 1, X(1));
  forward.in_place.push_back({Y(), X(1)});
  forward.flops += static_cast<double>(spec.output.elements());
  spec.traits.checkpoint = true;
  if (context.mode == Mode::kTraining) spec.passes_linear_grad = 1;
  return spec;
}

}  // namespace neap
