#include "neap/core/step/divisible_step.h"

#include <utility>

#include "neap/core/step/operands.h"
#include "neap/layers/convolution.h"
#include "neap/layers/transposed_convolution.h"

namespace neap {
namespace {

StepSignature WithGradients(StepSignature signature, Access access) {
  for (OperandSpec& operand : signature.operands) {
    if (operand.operand.slot == Slot::kParamGrad) operand.access = access;
  }
  return signature;
}

}  // namespace

bool IsDivisible(const StepSignature& signature) {
  return signature.phase != Phase::kUpdate &&
         (signature.layer.As<Convolution>() != nullptr ||
          signature.layer.As<TransposedConvolution>() != nullptr);
}

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
