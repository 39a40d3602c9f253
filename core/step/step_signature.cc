#include "neap/core/step/step_signature.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

TensorSpec TensorOf(Operand operand, const LayerSpec& spec, const LayerContext& context) {
  const size_t i = static_cast<size_t>(operand.index);
  switch (operand.slot) {
    case Slot::kInput:
    case Slot::kInputGrad:
    case Slot::kAddend:
      return context.inputs.at(i);
    case Slot::kOutput:
    case Slot::kOutputGrad:
      return spec.output;
    case Slot::kParam:
    case Slot::kParamGrad:
    case Slot::kOptimizer:
      return spec.params.at(i).tensor;
    case Slot::kSaved:
      return spec.saved.at(i).tensor;
    case Slot::kState:
      return spec.states.at(i).tensor;
    case Slot::kIteration:
      break;
  }
  return {.shape = {kIterationScalarsBytes / 4}, .dtype = DType::kInt32};
}

}  // namespace

absl::StatusOr<StepSignature> SignatureOf(const Layer& layer, Phase phase,
                                          const std::vector<TensorSpec>& inputs) {
  const LayerContext context = {.inputs = inputs};
  ASSIGN_OR_RETURN(const LayerSpec spec, layer.Specify(context));
  for (const StepSpec& step : spec.steps) {
    if (step.phase == phase) return SignatureOf(step, layer, spec, context);
  }
  return absl::InvalidArgumentError(absl::StrCat("a layer of type ", std::string(layer.type()),
                                                 " has no step ", std::string(Name(phase))));
}

StepSignature SignatureOf(const StepSpec& step, const Layer& layer, const LayerSpec& spec,
                          const LayerContext& context) {
  StepSignature signature = {.layer = layer, .phase = step.phase, .mode = context.mode};
  const auto add = [&](const std::vector<Operand>& operands, Access access) {
    for (Operand operand : operands)
      signature.operands.push_back({operand, TensorOf(operand, spec, context), access});
  };
  add(step.reads, Access::kRead);
  add(step.writes, Access::kWrite);
  add(step.accumulates, Access::kAccumulate);
  return signature;
}

}  // namespace neap
