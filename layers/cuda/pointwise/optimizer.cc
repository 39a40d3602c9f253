// The optimizer's steps: builds launches from signatures.
#include "neap/core/step/optimizer.h"

#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/program/update_groups.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/kernels/optimizer.h"

namespace neap::cuda {
namespace {

static_assert(kMaxTensorsOfGroup <= kernels::kMaxTensors,
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

// Launches for `count` tensors, kMaxTensors at a time. add(i, slot, tensors) puts the i-th into a
// slot of the launch.
template <typename Tensors, typename Add, typename Launch>
cudaError_t InLaunches(size_t count, const Add& add, const Launch& launch) {
  cudaError_t error = cudaSuccess;
  for (size_t i = 0; error == cudaSuccess && i < count;) {
    Tensors tensors;
    for (; i < count && tensors.count < kernels::kMaxTensors; ++i) add(i, tensors.count++, tensors);
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

// Launches for all gradients of the step.
template <typename Launch>
cudaError_t ForGradients(const LaunchArgs& a, const Launch& launch) {
  const OperandsIn gradients(a, Slot::kParamGrad);
  return InLaunches<kernels::GradientTensors>(
      gradients.count(),
      [&](size_t i, int slot, kernels::GradientTensors& tensors) {
        tensors.gradients[slot] = gradients.Floats(i);
        tensors.elements[slot] = gradients.elements(i);
      },
      launch);
}

cudaError_t SquaresLaunch(const LaunchArgs& a, float* squares) {
  bool begins = !a.signature.Accumulates(GradientNorm());
  return ForGradients(a, [&](const kernels::GradientTensors& tensors) {
    return kernels::AddSquares(tensors, std::exchange(begins, false),
                               static_cast<float*>(a.run.workspace), squares, a.stream);
  });
}

cudaError_t CheckLaunch(const LaunchArgs& a) {
  cudaError_t error = cudaSuccess;
  if (float* const squares = a.Find<float>(GradientNorm())) error = SquaresLaunch(a, squares);
  LossScale* const loss_scale = a.Find<LossScale>(LossScaling());
  if (error != cudaSuccess || loss_scale == nullptr) return error;
  return ForGradients(a, [&](const kernels::GradientTensors& tensors) {
    return kernels::CheckFinite(tensors, loss_scale, a.stream);
  });
}

cudaError_t UpdateScaleLaunch(const LaunchArgs& a) {
  return kernels::UpdateLossScale(a.Get<LossScale>(LossScaling()), a.stream);
}

kernels::OptimizerOptions OptionsOf(const Optimizer& optimizer) {
  return {.is_adamw = optimizer.rule == Optimizer::Rule::kAdamW,
          .nesterov = optimizer.nesterov,
          .momentum = optimizer.momentum,
          .weight_decay = optimizer.weight_decay,
          .beta1 = optimizer.beta1,
          .beta2 = optimizer.beta2,
          .epsilon = optimizer.epsilon,
          .clip_norm = optimizer.clip_norm,
          .average_decay = optimizer.average_decay};
}

cudaError_t UpdateLaunch(const LaunchArgs& a) {
  const LossScale* const loss_scale = a.Find<LossScale>(LossScaling());
  const kernels::OptimizerOptions options = OptionsOf(a.signature.optimizer);
  const OperandsIn params(a, Slot::kParam), masters(a, Slot::kMaster),
      gradients(a, Slot::kParamGrad), moments(a, Slot::kOptimizer),
      second_moments(a, Slot::kSecondMoment), averages(a, Slot::kAverage);
  const cudaError_t error = InLaunches<kernels::UpdateTensors>(
      params.count(),
      [&](size_t i, int slot, kernels::UpdateTensors& tensors) {
        kernels::UpdatePointers& pointers = tensors.pointers;
        float* const master = masters.Floats(i);
        pointers.parameters[slot] = master != nullptr ? master : params.Floats(i);
        if (master != nullptr) {
          pointers.rounded[slot] = params.Array(i).data;
          pointers.rounded_type = params.Array(i).type;
        }
        pointers.gradients[slot] = gradients.Floats(i);
        pointers.moments[slot] = moments.Floats(i);
        pointers.second_moments[slot] = second_moments.Floats(i);
        pointers.averages[slot] = averages.Floats(i);
        tensors.elements[slot] = params.elements(i);
      },
      [&](const auto& tensors) {
        return kernels::UpdateParameters(tensors, options, a.Get<void>(Iteration()),
                                         a.Find<float>(GradientNorm()), loss_scale, a.stream);
      });
  return error == cudaSuccess && loss_scale != nullptr ? CommitStates(a, loss_scale) : error;
}

}  // namespace

absl::StatusOr<Candidates> UpdateCandidates(const StepSignature& signature,
                                            const SharedRuntime& runtime) {
  std::optional<DType> rounded;
  for (int i = 0; signature.Has(Param(i)); ++i) {
    const DType dtype = signature.Spec(Param(i)).dtype;
    const bool is_fp32 = ElementOf(dtype) == kernels::Element::kFp32;
    const bool is_mixed = !is_fp32 && dtype != rounded.value_or(dtype);
    if (!is_fp32) rounded = dtype;
    if (signature.Has(Master(i)) != is_fp32 && !is_mixed) continue;
    return absl::UnimplementedError(
        absl::StrCat("the CUDA update needs a master of each 16-bit parameter only, all of which "
                     "have one type: ",
                     ToString(signature)));
  }
  return OwnKernel(signature, runtime, UpdateLaunch);
}

absl::StatusOr<Candidates> CheckGradientsCandidates(const StepSignature& signature,
                                                    const SharedRuntime& runtime) {
  int64_t parts = 0;
  if (signature.Has(GradientNorm())) {
    for (const OperandSpec& operand : signature.operands) {
      if (operand.operand.slot == Slot::kParamGrad)
        parts += kernels::SquaresParts(operand.tensor.elements());
    }
  }
  return OwnKernel(signature, runtime, CheckLaunch, parts * int64_t{sizeof(float)});
}

absl::StatusOr<Candidates> UpdateScaleCandidates(const StepSignature& signature,
                                                 const SharedRuntime& runtime) {
  return OwnKernel(signature, runtime, UpdateScaleLaunch);
}

}  // namespace neap::cuda
