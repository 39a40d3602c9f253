// Pooling: builds launches from signatures.
#include "neap/layers/pooling.h"

#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/pointwise/pool_shape.h"

namespace neap::cuda {
namespace {

using namespace operands;

// What is pooled, and the result, or their gradients.
const TensorSpec& PooledSpec(const StepSignature& signature) {
  return signature.Spec(signature.phase == Phase::kForward ? X() : Dx());
}
const TensorSpec& ResultSpec(const StepSignature& signature) {
  return signature.Spec(signature.phase == Phase::kForward ? Y() : Dy());
}

template <typename Layer>
kernels::PoolShape ShapeOf(const StepSignature& signature) {
  return PoolShapeOf(*signature.layer.As<Layer>(), PooledSpec(signature), ResultSpec(signature));
}

template <typename Layer>
absl::StatusOr<Candidates> PoolCandidates(const StepSignature& signature,
                                          const SharedRuntime& runtime, OwnLaunch launch) {
  RETURN_IF_ERROR(CheckPoolFits32(signature, *signature.layer.As<Layer>(), PooledSpec(signature),
                                  ResultSpec(signature)));
  return OwnKernel(signature, runtime, launch);
}

cudaError_t MaxPoolLaunch(const LaunchArgs& a) {
  const kernels::PoolShape shape = ShapeOf<MaxPool>(a.signature);
  void* const index = a.Find<void>(Saved(0));
  const bool wide = index != nullptr && a.signature.Spec(Saved(0)).dtype == DType::kInt32;
  if (a.signature.phase == Phase::kForward) {
    return kernels::MaxPool(shape, a.Array(X()), a.Array(Y()), index, wide, a.stream);
  }
  return kernels::MaxPoolBackward(shape, a.Array(Dy()), index, wide, a.Array(Dx()), a.stream);
}

cudaError_t AveragePoolLaunch(const LaunchArgs& a) {
  kernels::PoolShape shape = ShapeOf<AveragePool>(a.signature);
  shape.count_padding = a.signature.layer.As<AveragePool>()->count_padding;
  if (a.signature.phase == Phase::kForward) {
    return kernels::AveragePool(shape, a.Array(X()), a.Array(Y()), a.stream);
  }
  return kernels::AveragePoolBackward(shape, a.Array(Dy()), a.Array(Dx()), a.stream);
}

cudaError_t GlobalAveragePoolLaunch(const LaunchArgs& a) {
  const bool forward = a.signature.phase == Phase::kForward;
  const kernels::ChannelShape shape = ChannelShapeOf(a.signature.Spec(forward ? X() : Dx()));
  if (forward) return kernels::GlobalAveragePool(shape, a.Array(X()), a.Array(Y()), a.stream);
  return kernels::GlobalAveragePoolBackward(shape, a.Array(Dy()), a.Array(Dx()),
                                            a.signature.Accumulates(Dx()), a.stream);
}

}  // namespace

absl::StatusOr<Candidates> MaxPoolCandidates(const StepSignature& signature,
                                             const SharedRuntime& runtime) {
  return PoolCandidates<MaxPool>(signature, runtime, MaxPoolLaunch);
}
absl::StatusOr<Candidates> AveragePoolCandidates(const StepSignature& signature,
                                                 const SharedRuntime& runtime) {
  return PoolCandidates<AveragePool>(signature, runtime, AveragePoolLaunch);
}
absl::StatusOr<Candidates> GlobalAveragePoolCandidates(const StepSignature& signature,
                                                       const SharedRuntime& runtime) {
  if (signature.phase == Phase::kForward) {
    RETURN_IF_ERROR(CheckFits32(signature, signature.Spec(Y()).elements()));
    RETURN_IF_ERROR(CheckFits32(signature, ChannelShapeOf(signature.Spec(X())).inner));
  }
  return OwnKernel(signature, runtime, GlobalAveragePoolLaunch);
}

}  // namespace neap::cuda
