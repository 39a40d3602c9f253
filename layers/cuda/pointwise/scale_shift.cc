// ScaleShift: builds launches from signatures.
#include "neap/layers/scale_shift.h"

#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/kernels/scale_shift.h"

namespace neap::cuda {
namespace {

using namespace operands;

cudaError_t LaunchScaleShift(const LaunchArgs& a) {
  const ScaleShift& layer = *a.signature.layer.As<ScaleShift>();
  const Operand scale = Param(0), shift = Param(layer.shift_param());
  kernels::ScaleShiftNumbers numbers = {.scale = layer.scale, .shift = layer.shift};
  if (layer.learns_scale) numbers.scales = a.Get<float>(scale);
  if (a.signature.phase == Phase::kForward) {
    if (layer.learns_shift) numbers.shifts = a.Get<float>(shift);
    return kernels::ScaleShift(ChannelShapeOf(a.signature.Spec(X())), numbers, a.Array(X()),
                               a.Array(Y()), a.stream);
  }
  const kernels::ChannelShape shape = ChannelShapeOf(a.signature.Spec(Dy()));
  numbers.shift = 0;
  if (!layer.learns())
    return kernels::ScaleShift(shape, numbers, a.Array(Dy()), a.Array(Dx()), a.stream);
  const Operand dscale = ParamGrad(0), dshift = ParamGrad(layer.shift_param());
  kernels::ScaleShiftGradients gradients;
  if (layer.learns_scale) {
    gradients.scales = a.Get<float>(dscale);
    gradients.adds_scales = a.signature.Accumulates(dscale);
  }
  if (layer.learns_shift) {
    gradients.shifts = a.Get<float>(dshift);
    gradients.adds_shifts = a.signature.Accumulates(dshift);
  }
  return kernels::ScaleShiftBackward(shape, numbers, a.FindArray(X()), a.Array(Dy()), a.Array(Dx()),
                                     gradients, a.Reduction(), a.stream);
}

}  // namespace

absl::StatusOr<Candidates> ScaleShiftCandidates(const StepSignature& signature,
                                                const SharedRuntime& runtime) {
  const bool forward = signature.phase == Phase::kForward;
  if (!signature.layer.As<ScaleShift>()->learns())
    return OwnKernel(signature, runtime, LaunchScaleShift);
  RETURN_IF_ERROR(CheckFp32(signature, {Slot::kParam}));
  const TensorSpec& elements = signature.Spec(forward ? X() : Dy());
  const kernels::ChannelShape shape = ChannelShapeOf(elements);
  RETURN_IF_ERROR(CheckFits32(signature, shape.outer * shape.inner));
  if (forward) return OwnKernel(signature, runtime, LaunchScaleShift);
  return OwnKernel(signature, runtime, LaunchScaleShift,
                   kernels::ChannelScratchBytes(shape, ElementOf(elements.dtype)));
}

}  // namespace neap::cuda
