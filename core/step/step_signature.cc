#include "neap/core/step/step_signature.h"

#include <algorithm>
#include <cassert>
#include <string>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/step/loss_scale.h"
#include "neap/core/step/operands.h"
#include "neap/core/step/specify.h"

namespace neap {
namespace {

// Takes the place of the layer in the signature of a step that does not belong to a layer.
struct NoLayer {
  static constexpr std::string_view kType = "none";
  absl::StatusOr<LayerSpec> Specify(const LayerContext& /*context*/) const {
    return absl::InvalidArgumentError("not a layer");
  }
  friend bool operator==(const NoLayer&, const NoLayer&) = default;
};

TensorSpec TensorOf(Operand operand, const LayerSpec& spec, const LayerContext& context) {
  const size_t i = static_cast<size_t>(operand.index);
  switch (operand.slot) {
    case Slot::kInput:
    case Slot::kInputGrad:
    case Slot::kAddend:
      return context.inputs.at(i);
    case Slot::kOutput:
      return spec.OutputSpec(operand.index);
    case Slot::kOutputGrad:  // of one output, perhaps the second of two to be added
      return spec.output_count() > 1 ? spec.OutputSpec(operand.index) : spec.output;
    case Slot::kLinearGrad:
      return spec.output;
    case Slot::kParam:
      return spec.params.at(i).tensor;
    case Slot::kParamGrad:
    case Slot::kOptimizer:
    case Slot::kSecondMoment:
    case Slot::kAverage:
    case Slot::kMaster:
      return InFullPrecision(spec.params.at(i).tensor);
    case Slot::kSaved:
      return spec.saved.at(i).tensor;
    case Slot::kState:
    case Slot::kBackup:
      return spec.states.at(i).tensor;
    case Slot::kLossScale:
      return VectorSpec(kLossScaleValues);
    case Slot::kGradientNorm:
      return VectorSpec(1);
    case Slot::kIteration:
      break;
  }
  return {.shape = {kIterationScalarsBytes / 4}, .dtype = DType::kInt32};
}

StepSignature WithGradients(StepSignature signature, Access access) {
  for (OperandSpec& operand : signature.operands) {
    if (operand.operand.slot == Slot::kParamGrad) operand.access = access;
  }
  return signature;
}

}  // namespace

std::optional<size_t> StepSignature::Find(Operand operand) const {
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].operand == operand) return i;
  }
  return std::nullopt;
}

const TensorSpec& StepSignature::Spec(Operand operand) const {
  const std::optional<size_t> position = Find(operand);
  assert(position.has_value());
  return operands[*position].tensor;
}

bool StepSignature::Accumulates(Operand operand) const {
  const std::optional<size_t> position = Find(operand);
  return position.has_value() && operands[*position].access == Access::kAccumulate;
}

bool StepSignature::CanAccumulate(Slot slot) const {
  switch (phase) {
    case Phase::kUpdate:
      return slot == Slot::kParam || slot == Slot::kMaster || slot == Slot::kOptimizer ||
             slot == Slot::kSecondMoment || slot == Slot::kAverage || slot == Slot::kState ||
             slot == Slot::kBackup;
    case Phase::kCheckGradients:
    case Phase::kUpdateScale:
      return slot == Slot::kLossScale || slot == Slot::kGradientNorm;
    case Phase::kAddGradients:
      return slot == Slot::kInputGrad;
    default:
      break;
  }
  return std::find(accumulates_natively.begin(), accumulates_natively.end(), slot) !=
         accumulates_natively.end();
}

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
  StepSignature signature = {.layer = layer,
                             .phase = step.phase,
                             .mode = context.mode,
                             .divisible = MayDivide(spec.traits, step.phase),
                             .multiplies = spec.traits.multiplies && IsOfLayer(step.phase),
                             .accumulates_natively = step.accumulates_natively};
  const auto add = [&](const std::vector<Operand>& operands, Access access) {
    for (Operand operand : operands)
      signature.operands.push_back({operand, TensorOf(operand, spec, context), access});
  };
  add(step.reads, Access::kRead);
  add(step.writes, Access::kWrite);
  add(step.accumulates, Access::kAccumulate);
  return signature;
}

StepSignature AdditionSignature(const TensorSpec& spec) {
  return {.layer = NoLayer{},
          .phase = Phase::kAddGradients,
          .operands = {{operands::Dx(), spec, Access::kAccumulate},
                       {operands::Addend(), spec, Access::kRead}}};
}

std::string_view TypeOf(const Layer& layer, Phase phase, const Optimizer& optimizer) {
  switch (phase) {
    case Phase::kForward:
    case Phase::kBackwardActivation:
    case Phase::kBackwardData:
    case Phase::kBackwardParams:
    case Phase::kPause:
      break;
    case Phase::kUpdate:
      return optimizer.rule == Optimizer::Rule::kAdamW ? "adamw" : "sgd";
    case Phase::kCheckGradients:
      return optimizer.clips() ? "gradient_norm" : "loss_scale";
    case Phase::kUpdateScale:
      return "loss_scale";
    case Phase::kAllReduce:
    case Phase::kReduceScatter:
    case Phase::kAllGather:
      return "collective";
    case Phase::kAddGradients:
      return "add";
  }
  return layer.type();
}

bool IsDivisible(const StepSignature& signature) { return signature.divisible; }

bool SumsParts(const StepSignature& signature) {
  return IsDivisible(signature) && signature.phase == Phase::kBackwardParams;
}

StepSignature AddingSignature(StepSignature signature) {
  return WithGradients(std::move(signature), Access::kAccumulate);
}

StepSignature WritingSignature(StepSignature signature) {
  return WithGradients(std::move(signature), Access::kWrite);
}

bool AddsToGradients(const StepSignature& signature) {
  return SumsParts(signature) && signature.Accumulates(operands::ParamGrad(0));
}

}  // namespace neap
