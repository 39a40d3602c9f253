// A GELU with the bias before it: builds launches from signatures.
#include "neap/layers/fusion/biased_gelu.h"

#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/candidates.h"

namespace neap::cuda {
namespace {

using namespace operands;

cudaError_t LaunchBiasedGelu(const LaunchArgs& a) {
  const TensorSpec& x = a.signature.Spec(X());
  const kernels::ChannelShape shape = ChannelShapeOf(x);
  const kernels::Activation gelu = *ActivationOf(a.signature.layer.As<BiasedGelu>()->gelu, x.dtype);
  const float* const bias = a.Get<float>(Param(0));
  if (a.signature.phase == Phase::kForward)
    return kernels::BiasGelu(shape, gelu, a.Array(X()), bias, a.Array(Y()), a.stream);
  const kernels::BiasGradientSum dbias = {a.Get<float>(ParamGrad(0)),
                                          a.signature.Accumulates(ParamGrad(0))};
  return kernels::BiasGeluBackward(shape, gelu, a.Array(X()), bias, a.Array(Dy()), a.Array(Dx()),
                                   dbias, a.Reduction(), a.stream);
}

}  // namespace

absl::StatusOr<Candidates> BiasedGeluCandidates(const StepSignature& signature,
                                                const SharedRuntime& runtime) {
  RETURN_IF_ERROR(CheckFp32(signature, {Slot::kParam}));
  const TensorSpec& x = signature.Spec(X());
  const kernels::ChannelShape shape = ChannelShapeOf(x);
  if (signature.phase == Phase::kForward) {
    RETURN_IF_ERROR(CheckPlanesFit32(signature, shape));
    return OwnKernel(signature, runtime, LaunchBiasedGelu);
  }
  RETURN_IF_ERROR(CheckFits32(signature, shape.outer * shape.inner));
  return OwnKernel(signature, runtime, LaunchBiasedGelu,
                   kernels::BiasGeluScratchBytes(shape, ElementOf(x.dtype)));
}

}  // namespace neap::cuda
