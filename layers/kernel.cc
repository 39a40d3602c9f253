#include "neap/layers/kernel.h"

#include <cassert>

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

}  // namespace neap
