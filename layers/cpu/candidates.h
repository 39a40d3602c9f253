// What the CPU backend's table holds: for a layer and phase, a function that lists the ways to run
// a signature.
//
// Listing must be cheap, because planning asks it of every step; so a candidate carries what making
// the kernel takes (code generation, in oneDNN) as a function that is called only when the kernel
// is wanted.
#pragma once

#include <cassert>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/step/kernel.h"
#include "neap/core/step/operands.h"

namespace neap::cpu {

struct Candidate {
  Engine engine;
  std::function<absl::StatusOr<std::unique_ptr<Kernel>>()> make;
};
using Candidates = std::vector<Candidate>;
using CandidatesOf = absl::StatusOr<Candidates> (*)(const StepSignature& signature);

// One run of a step, for kernels that are a loop.
struct LoopArgs {
  const StepSignature& signature;
  const KernelArgs& run;

  template <typename T>
  T* Find(Operand operand) const {  // null when the step has no such operand
    const std::optional<size_t> position = signature.Find(operand);
    return position ? static_cast<T*>(run.operands[*position]) : nullptr;
  }
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
};
using Loop = void (*)(const LoopArgs& args);

// The one candidate "neap": `loop`, with a workspace.
Candidates OwnLoop(const StepSignature& signature, Loop loop, int64_t workspace_bytes = 0);

// The table's entries, one function per layer and phase.
absl::StatusOr<Candidates> ConvolutionForward(const StepSignature& signature);
absl::StatusOr<Candidates> ConvolutionBackwardData(const StepSignature& signature);
absl::StatusOr<Candidates> ConvolutionBackwardParams(const StepSignature& signature);
absl::StatusOr<Candidates> TransposedConvolutionForward(const StepSignature& signature);
absl::StatusOr<Candidates> TransposedConvolutionBackwardData(const StepSignature& signature);
absl::StatusOr<Candidates> TransposedConvolutionBackwardParams(const StepSignature& signature);
absl::StatusOr<Candidates> FullyConnectedForward(const StepSignature& signature);
absl::StatusOr<Candidates> FullyConnectedBackwardData(const StepSignature& signature);
absl::StatusOr<Candidates> FullyConnectedBackwardParams(const StepSignature& signature);
absl::StatusOr<Candidates> AveragePoolForward(const StepSignature& signature);
absl::StatusOr<Candidates> AveragePoolBackward(const StepSignature& signature);
absl::StatusOr<Candidates> MaxPoolForward(const StepSignature& signature);
absl::StatusOr<Candidates> MaxPoolBackward(const StepSignature& signature);
absl::StatusOr<Candidates> ActivationForward(const StepSignature& signature);
absl::StatusOr<Candidates> ActivationBackward(const StepSignature& signature);
absl::StatusOr<Candidates> LrnForward(const StepSignature& signature);
absl::StatusOr<Candidates> LrnBackward(const StepSignature& signature);
absl::StatusOr<Candidates> BatchNormForward(const StepSignature& signature);
absl::StatusOr<Candidates> BatchNormBackward(const StepSignature& signature);
absl::StatusOr<Candidates> DropoutForward(const StepSignature& signature);
absl::StatusOr<Candidates> DropoutBackward(const StepSignature& signature);
absl::StatusOr<Candidates> SoftmaxForward(const StepSignature& signature);
absl::StatusOr<Candidates> SoftmaxBackward(const StepSignature& signature);
absl::StatusOr<Candidates> AddForward(const StepSignature& signature);
absl::StatusOr<Candidates> AddBackward(const StepSignature& signature);
absl::StatusOr<Candidates> ConcatForward(const StepSignature& signature);
absl::StatusOr<Candidates> ConcatBackward(const StepSignature& signature);
absl::StatusOr<Candidates> CropForward(const StepSignature& signature);
absl::StatusOr<Candidates> CropBackward(const StepSignature& signature);
absl::StatusOr<Candidates> AddGradients(const StepSignature& signature);
absl::StatusOr<Candidates> SgdUpdate(const StepSignature& signature);

}  // namespace neap::cpu
