// Batch norm, alone and fused: builds launches from signatures.
#include "neap/layers/batch_norm.h"

#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/fused_batch_norm.h"

namespace neap::cuda {
namespace {

using namespace operands;

kernels::BatchNormOperands BatchNormReads(const LaunchArgs& a) {
  const bool training = a.signature.Has(Saved(0));
  return {.x = a.Array(X()),
          .gamma = a.Get<float>(Param(0)),
          .beta = a.Find<float>(Param(1)),
          .mean = a.Get<float>(training ? Saved(0) : State(0)),
          .invstd = a.Get<float>(training ? Saved(1) : State(1))};
}

cudaError_t BatchNormForward(const LaunchArgs& a) {
  const FusedBatchNorm layer = FusedBatchNormOf(a.signature.layer);
  const kernels::ChannelShape shape = ChannelShapeOf(a.signature.Spec(X()));
  const kernels::BatchNormOperands in = BatchNormReads(a);
  const kernels::BatchNormEpilogue epilogue = {.addend = a.FindArray(X(1)), .relu = layer.relu};
  if (!a.signature.Has(Saved(0))) {
    return kernels::BatchNormInference(shape, in, epilogue, layer.norm.epsilon, a.Array(Y()),
                                       a.stream);
  }
  if (!a.signature.rerun) {
    const kernels::BatchNormState state = {a.Get<float>(Saved(0)), a.Get<float>(Saved(1)),
                                           a.Find<float>(State(0)), a.Find<float>(State(1))};
    const cudaError_t error = kernels::BatchNormStatistics(
        shape, in.x, layer.norm.epsilon, layer.norm.momentum, state, a.Reduction(), a.stream);
    if (error != cudaSuccess) return error;
  }
  return kernels::BatchNormApply(shape, in, epilogue, a.Array(Y()), a.stream);
}

cudaError_t BatchNormBackward(const LaunchArgs& a) {
  const kernels::ChannelShape shape = ChannelShapeOf(a.signature.Spec(X()));
  const kernels::BatchNormOperands in = BatchNormReads(a);
  const kernels::BatchNormGradient gradient = {.dy = a.Array(Dy()),
                                               .relu = FusedBatchNormOf(a.signature.layer).relu,
                                               .y = a.FindArray(Y()),
                                               .daddend = a.FindArray(Dx(1))};
  float* const dgamma = a.Get<float>(ParamGrad(0));
  float* const dbeta = a.Get<float>(ParamGrad(1));
  const cudaError_t error =
      kernels::BatchNormSums(shape, in, gradient, dgamma, dbeta, a.Reduction(), a.stream);
  if (error != cudaSuccess || !a.signature.Has(Dx())) return error;
  return kernels::BatchNormBackward(shape, in, gradient, dgamma, dbeta, a.Array(Dx()), a.stream);
}

}  // namespace

absl::StatusOr<Candidates> BatchNormCandidates(const StepSignature& signature,
                                               const SharedRuntime& runtime) {
  RETURN_IF_ERROR(CheckFp32(signature, {Slot::kParam}));
  const kernels::ChannelShape shape = ChannelShapeOf(signature.Spec(X()));
  const bool forward = signature.phase == Phase::kForward;
  const bool reduces = !forward || (signature.Has(Saved(0)) && !signature.rerun);
  if (reduces) RETURN_IF_ERROR(CheckFits32(signature, shape.outer * shape.inner));
  const kernels::Element type = ElementOf(signature.Spec(X()).dtype);
  return OwnKernel(signature, runtime, forward ? BatchNormForward : BatchNormBackward,
                   reduces ? kernels::ChannelScratchBytes(shape, type) : 0);
}

}  // namespace neap::cuda
