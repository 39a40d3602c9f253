// Multiply: builds launches from signatures.
#include "neap/layers/multiply.h"

#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/candidates.h"

namespace neap::cuda {
namespace {

using namespace operands;

cudaError_t Forward(const LaunchArgs& a) {
  return kernels::Multiply(ChannelShapeOf(a.signature.Spec(X(0))), a.Array(X(0)), a.Array(X(1)),
                           a.Elements(X(1)), a.Array(Y()), a.stream);
}

cudaError_t Backward(const LaunchArgs& a) {
  const kernels::PairGradients gradients = {.da = a.Array(Dx(0)),
                                            .db = a.Array(Dx(1)),
                                            .adds_da = a.signature.Accumulates(Dx(0)),
                                            .adds_db = a.signature.Accumulates(Dx(1))};
  return kernels::MultiplyBackward(ChannelShapeOf(a.signature.Spec(X(0))), a.Array(X(0)),
                                   a.Array(X(1)), a.Elements(X(1)), a.Array(Dy()), gradients,
                                   a.run.workspace, a.stream);
}

}  // namespace

absl::StatusOr<Candidates> MultiplyCandidates(const StepSignature& signature,
                                              const SharedRuntime& runtime) {
  if (signature.phase == Phase::kForward) return OwnKernel(signature, runtime, Forward);
  const kernels::ChannelShape shape = ChannelShapeOf(signature.Spec(X(0)));
  const int64_t factors = signature.Spec(X(1)).elements();
  RETURN_IF_ERROR(CheckFits32(signature, factors == shape.outer * shape.channels ? factors : 0));
  RETURN_IF_ERROR(CheckFits32(signature, shape.inner));
  return OwnKernel(signature, runtime, Backward, kernels::PerChannelScratchBytes(shape, factors));
}

}  // namespace neap::cuda
