// A bias and the ReLU behind it: builds launches from signatures.
#include "neap/layers/bias_relu.h"

#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/candidates.h"

namespace neap::cuda {
namespace {

using namespace operands;

cudaError_t Forward(const LaunchArgs& a) {
  return kernels::BiasRelu(ChannelShapeOf(a.signature.Spec(Y())), a.Array(X()),
                           a.Get<float>(Param(0)), a.Array(Y()), a.stream);
}

cudaError_t Backward(const LaunchArgs& a) {
  return kernels::BiasReluBackward(ChannelShapeOf(a.signature.Spec(Dy())), a.Array(Y()),
                                   a.Array(Dy()), a.Array(Dx()), a.Get<float>(ParamGrad(0)),
                                   a.run.workspace, a.stream);
}

}  // namespace

absl::StatusOr<Candidates> BiasReluCandidates(const StepSignature& signature,
                                              const SharedRuntime& runtime) {
  if (signature.phase == Phase::kForward) return OwnKernel(signature, runtime, Forward);
  const TensorSpec& dy = signature.Spec(Dy());
  const kernels::ChannelShape shape = ChannelShapeOf(dy);
  RETURN_IF_ERROR(CheckFits32(signature, shape.outer * shape.inner));
  return OwnKernel(signature, runtime, Backward,
                   kernels::ChannelScratchBytes(shape, ElementOf(dy.dtype)));
}

}  // namespace neap::cuda
