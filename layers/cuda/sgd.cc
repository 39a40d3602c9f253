// The optimizer's steps: builds launches from signatures.
#include "neap/core/step/sgd.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/program/update_groups.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/kernels/optimizer.h"

namespace neap::cuda {
namespace {

static_assert(kMostTensorsOfGroup <= kernels::kMostTensors,
              "an update of several layers is one launch");

using namespace operands;

// The operands of one slot, found in one pass: an update may have hundreds of operands.
class OperandsIn {
 public:
  OperandsIn(const LaunchArgs& a, Slot slot) {
    for (size_t i = 0; i < a.signature.operands.size(); ++i) {
      const OperandSpec& operand = a.signature.operands[i];
      if (operand.operand.slot != slot) continue;
      const size_t index = static_cast<size_t>(operand.operand.index);
      if (index >= arrays_.size()) {
        arrays_.resize(index + 1);
        elements_.resize(index + 1);
      }
      arrays_[index] = {a.run.operands[i], ElementOf(operand.tensor.dtype)};
      elements_[index] = operand.tensor.elements();
    }
  }

  size_t count() const { return arrays_.size(); }
  // Null if the step does not have the operand.
  kernels::Array Array(size_t index) const {
    return index < arrays_.size() ? arrays_[index] : kernels::Array();
  }
  float* Floats(size_t index) const { return static_cast<float*>(Array(index).data); }
  int64_t elements(size_t index) const { return elements_[index]; }

 private:
  std::vector<kernels::Array> arrays_;
  std::vector<int64_t> elements_;
};

// Launches for `count` tensors, kMostTensors at a time. add(i, slot, tensors) puts the i-th into a
// slot of the launch.
template <typename Tensors, typename Add, typename Launch>
cudaError_t InLaunches(size_t count, const Add& add, const Launch& launch) {
  cudaError_t error = cudaSuccess;
  for (size_t i = 0; error == cudaSuccess && i < count;) {
    Tensors tensors;
    for (; i < count && tensors.count < kernels::kMostTensors; ++i)
      add(i, tensors.count++, tensors);
    error = launch(tensors);
  }
  return error;
}

cudaError_t CommitStates(const LaunchArgs& a, const LossScale* loss_scale) {
  const OperandsIn states(a, Slot::kState), backups(a, Slot::kBackup);
  return InLaunches<kernels::StateTensors>(
      states.count(),
      [&](size_t i, int slot, kernels::StateTensors& tensors) {
        tensors.states[slot] = states.Floats(i);
        tensors.backups[slot] = backups.Floats(i);
        tensors.elements[slot] = states.elements(i);
      },
      [&](const auto& tensors) { return kernels::CommitState(tensors, loss_scale, a.stream); });
}

cudaError_t CheckLaunch(const LaunchArgs& a) {
  LossScale* const loss_scale = a.Get<LossScale>(LossScaling());
  const OperandsIn gradients(a, Slot::kParamGrad);
  return InLaunches<kernels::GradientTensors>(
      gradients.count(),
      [&](size_t i, int slot, kernels::GradientTensors& tensors) {
        tensors.gradients[slot] = gradients.Floats(i);
        tensors.elements[slot] = gradients.elements(i);
      },
      [&](const auto& tensors) { return kernels::CheckFinite(tensors, loss_scale, a.stream); });
}

cudaError_t UpdateScaleLaunch(const LaunchArgs& a) {
  return kernels::UpdateLossScale(a.Get<LossScale>(LossScaling()), a.stream);
}

cudaError_t SgdLaunch(const LaunchArgs& a) {
  const Sgd& sgd = a.signature.sgd;
  const LossScale* const loss_scale = a.Find<LossScale>(LossScaling());
  const void* const scalars = a.Get<void>(Iteration());
  const OperandsIn params(a, Slot::kParam), masters(a, Slot::kMaster),
      gradients(a, Slot::kParamGrad), velocities(a, Slot::kOptimizer);
  const cudaError_t error = InLaunches<kernels::SgdTensors>(
      params.count(),
      [&](size_t i, int slot, kernels::SgdTensors& tensors) {
        float* const master = masters.Floats(i);
        tensors.parameters[slot] = master != nullptr ? master : params.Floats(i);
        if (master != nullptr) tensors.rounded[slot] = params.Array(i);
        tensors.gradients[slot] = gradients.Floats(i);
        tensors.velocities[slot] = velocities.Floats(i);
        tensors.elements[slot] = params.elements(i);
      },
      [&](const auto& tensors) {
        return kernels::SgdUpdate(tensors, sgd.momentum, sgd.weight_decay, scalars, loss_scale,
                                  a.stream);
      });
  return error == cudaSuccess && loss_scale != nullptr ? CommitStates(a, loss_scale) : error;
}

}  // namespace

absl::StatusOr<Candidates> SgdCandidates(const StepSignature& signature,
                                         const SharedRuntime& runtime) {
  for (int i = 0; signature.Has(Param(i)); ++i) {
    const bool is_fp32 = ElementOf(signature.Spec(Param(i)).dtype) == kernels::Element::kFp32;
    if (signature.Has(Master(i)) != is_fp32) continue;
    return absl::UnimplementedError(absl::StrCat(
        "the CUDA update needs a master of each 16-bit parameter only: ", ToString(signature)));
  }
  return OwnKernel(signature, runtime, SgdLaunch);
}

absl::StatusOr<Candidates> CheckGradientsCandidates(const StepSignature& signature,
                                                    const SharedRuntime& runtime) {
  return OwnKernel(signature, runtime, CheckLaunch);
}

absl::StatusOr<Candidates> UpdateScaleCandidates(const StepSignature& signature,
                                                 const SharedRuntime& runtime) {
  return OwnKernel(signature, runtime, UpdateScaleLaunch);
}

}  // namespace neap::cuda
