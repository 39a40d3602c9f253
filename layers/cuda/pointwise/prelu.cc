// Parametric ReLU: builds launches from signatures.
#include "neap/layers/prelu.h"

#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/kernels/prelu.h"

namespace neap::cuda {
namespace {

using namespace operands;

// Of x, in channels with a slope each: one channel if they share theirs.
kernels::ChannelShape SlopeShape(const StepSignature& signature) {
  const TensorSpec& x = signature.Spec(X());
  if (signature.Spec(Param(0)).elements() == 1) return {.inner = x.elements()};
  return DenseChannelShapeOf(x);
}

cudaError_t PreluLaunch(const LaunchArgs& a) {
  const kernels::ChannelShape shape = SlopeShape(a.signature);
  const float* const slopes = a.Get<float>(Param(0));
  if (a.signature.phase == Phase::kForward)
    return kernels::Prelu(shape, a.Array(X()), slopes, a.Array(Y()), a.stream);
  return kernels::PreluBackward(shape, a.Array(X()), a.Array(Dy()), slopes, a.Array(Dx()),
                                a.Get<float>(ParamGrad(0)), a.signature.Accumulates(ParamGrad(0)),
                                a.Reduction(), a.stream);
}

}  // namespace

absl::StatusOr<Candidates> PreluCandidates(const StepSignature& signature,
                                           const SharedRuntime& runtime) {
  RETURN_IF_ERROR(CheckFp32(signature, {Slot::kParam}));
  const kernels::ChannelShape shape = SlopeShape(signature);
  if (shape.channels > 1) RETURN_IF_ERROR(CheckFits32(signature, shape.outer * shape.inner));
  if (signature.phase == Phase::kForward) return OwnKernel(signature, runtime, PreluLaunch);
  return OwnKernel(signature, runtime, PreluLaunch,
                   kernels::PreluScratchBytes(shape, ElementOf(signature.Spec(X()).dtype)));
}

}  // namespace neap::cuda
