// A ReLU with the max pooling behind it and the bias before it: builds launches from signatures.
#include "neap/layers/fusion/fused_relu.h"

#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/pointwise/pool_shape.h"

namespace neap::cuda {
namespace {

using namespace operands;

cudaError_t ReluForward(const LaunchArgs& a) {
  const FusedRelu& layer = *a.signature.layer.As<FusedRelu>();
  const TensorSpec& x = a.signature.Spec(X());
  return kernels::BiasReluPool(PoolShapeOf(layer.pool, x, a.signature.Spec(Y())), x.shape.c(),
                               a.Array(X()), a.Find<float>(Param(0)), a.Array(Y()),
                               a.Find<uint8_t>(Saved(0)), a.stream);
}

cudaError_t ReluBackward(const LaunchArgs& a) {
  const FusedRelu& layer = *a.signature.layer.As<FusedRelu>();
  const TensorSpec& dx = a.signature.Spec(Dx());
  float* const dbias = a.Find<float>(ParamGrad(0));
  const kernels::PoolShape pool = PoolShapeOf(layer.pool, dx, a.signature.Spec(Dy()));
  const uint8_t* const index = a.Get<uint8_t>(Saved(0));
  // No window has the index of those whose gradient stops at the ReLU.
  if (dbias == nullptr) {
    return kernels::MaxPoolBackward(pool, a.Array(Dy()), index, /*wide_index=*/false, a.Array(Dx()),
                                    a.stream);
  }
  return kernels::BiasReluPoolBackward(ChannelShapeOf(dx), pool, a.Array(Dy()), index,
                                       a.Array(Dx()), dbias, a.Reduction(), a.stream);
}

}  // namespace

absl::StatusOr<Candidates> FusedReluCandidates(const StepSignature& signature,
                                               const SharedRuntime& runtime) {
  RETURN_IF_ERROR(CheckFp32(signature, {Slot::kParam}));
  const bool forward = signature.phase == Phase::kForward;
  RETURN_IF_ERROR(CheckPoolFits32(signature, signature.layer.As<FusedRelu>()->pool,
                                  signature.Spec(forward ? X() : Dx()),
                                  signature.Spec(forward ? Y() : Dy()),
                                  /*has_values_per_channel=*/true));
  if (forward) return OwnKernel(signature, runtime, ReluForward);
  if (!signature.Has(ParamGrad(0))) return OwnKernel(signature, runtime, ReluBackward);
  const TensorSpec& dx = signature.Spec(Dx());
  const kernels::ChannelShape shape = ChannelShapeOf(dx);
  RETURN_IF_ERROR(CheckFits32(signature, shape.outer * shape.inner));
  return OwnKernel(signature, runtime, ReluBackward,
                   kernels::ChannelScratchBytes(shape, ElementOf(dx.dtype)));
}

}  // namespace neap::cuda
