// The optimizer's steps: builds launches from signatures.
#include "neap/core/step/sgd.h"

#include "absl/strings/str_cat.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/kernels/optimizer.h"

namespace neap::cuda {
namespace {

using namespace operands;

// Launches for the states of the step, kMostStates at a time.
cudaError_t CommitStates(const LaunchArgs& a, const LossScale* loss_scale) {
  cudaError_t error = cudaSuccess;
  kernels::StateTensors tensors;
  const auto launch = [&] {
    if (error == cudaSuccess) error = kernels::CommitState(tensors, loss_scale, a.stream);
    tensors = {};
  };
  for (const OperandSpec& operand : a.signature.operands) {
    if (operand.operand.slot != Slot::kState) continue;
    const int slot = tensors.count++;
    tensors.states[slot] = a.Get<float>(operand.operand);
    tensors.backups[slot] = a.Get<float>(Backup(operand.operand.index));
    tensors.elements[slot] = operand.tensor.elements();
    if (tensors.count == kernels::kMostStates) launch();
  }
  launch();
  return error;
}

cudaError_t CheckLaunch(const LaunchArgs& a) {
  cudaError_t error = cudaSuccess;
  LossScale* const loss_scale = a.Get<LossScale>(LossScaling());
  for (int first = 0; error == cudaSuccess && a.signature.Has(ParamGrad(first));
       first += kernels::kMostChecked) {
    kernels::GradientTensors tensors;
    for (int k = first; k < first + kernels::kMostChecked && a.signature.Has(ParamGrad(k)); ++k) {
      tensors.gradients[tensors.count] = a.Get<float>(ParamGrad(k));
      tensors.elements[tensors.count++] = a.Elements(ParamGrad(k));
    }
    error = kernels::CheckFinite(tensors, loss_scale, a.stream);
  }
  return error;
}

cudaError_t UpdateScaleLaunch(const LaunchArgs& a) {
  return kernels::UpdateLossScale(a.Get<LossScale>(LossScaling()), a.stream);
}

cudaError_t SgdLaunch(const LaunchArgs& a) {
  const Sgd& sgd = a.signature.sgd;
  const LossScale* const loss_scale = a.Find<LossScale>(LossScaling());
  cudaError_t error = cudaSuccess;
  for (int first = 0; error == cudaSuccess && a.signature.Has(Param(first));
       first += kernels::kMostUpdates) {
    kernels::SgdTensors tensors;
    for (int k = first; k < first + kernels::kMostUpdates && a.signature.Has(Param(k)); ++k) {
      const int slot = tensors.count++;
      if (float* const master = a.Find<float>(Master(k))) {
        tensors.parameters[slot] = master;
        tensors.rounded[slot] = a.Array(Param(k));
      } else {
        tensors.parameters[slot] = a.Get<float>(Param(k));
      }
      tensors.gradients[slot] = a.Get<float>(ParamGrad(k));
      tensors.velocities[slot] = a.Find<float>(Optimizer(k));
      tensors.elements[slot] = a.Elements(Param(k));
    }
    error = kernels::SgdUpdate(tensors, sgd.momentum, sgd.weight_decay, a.Get<void>(Iteration()),
                               loss_scale, a.stream);
  }
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
