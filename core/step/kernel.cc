#include "neap/core/step/kernel.h"

#include <cassert>

#include "neap/layers/batch_norm.h"
#include "neap/layers/join.h"

namespace neap {

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
  if (phase == Phase::kUpdate) return slot == Slot::kParam || slot == Slot::kOptimizer;
  if (slot == Slot::kInputGrad) return layer.type() == Add::kType || layer.type() == Concat::kType;
  return slot == Slot::kState && layer.type() == BatchNorm::kType && mode == Mode::kTraining;
}

}  // namespace neap
