// One run of a step as its kernel sees it: addresses looked up by operand instead of by position.
//
//   void ReluForward(const StepRun& step) {
//     const float* const x = step.Get<float>(operands::X());
//     float* const y = step.Get<float>(operands::Y());
//     for (int64_t i = 0; i < step.Elements(operands::Y()); ++i) y[i] = x[i] <= 0 ? 0 : x[i];
//   }
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "neap/core/step/kernel.h"
#include "neap/core/step/operands.h"

namespace neap {

struct StepRun {
  const StepSignature& signature;
  const KernelArgs& run;

  // The operand's address; null if the step does not have the operand.
  template <typename T>
  T* Find(Operand operand) const {
    const std::optional<size_t> position = signature.Find(operand);
    return position ? static_cast<T*>(run.operands[*position]) : nullptr;
  }
  // The address of an operand that the step must have.
  template <typename T>
  T* Get(Operand operand) const {
    T* const address = Find<T>(operand);
    assert(address != nullptr);
    return address;
  }
  template <typename T>
  T* Workspace() const {
    return static_cast<T*>(run.workspace);
  }
  int64_t Elements(Operand operand) const { return signature.Spec(operand).elements(); }
};

}  // namespace neap
