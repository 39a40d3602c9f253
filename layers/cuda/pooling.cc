// Pooling: builds launches from signatures.
#include "neap/layers/pooling.h"

#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/candidates.h"

namespace neap::cuda {
namespace {

using namespace operands;

// NCHW images are treated as planes of one channel.
kernels::PoolShape PoolShapeOf(const TensorSpec& x, const TensorSpec& y) {
  const bool last = x.layout == Layout::kNhwc;
  return {.outer = last ? x.shape.n() : x.shape.n() * x.shape.c(),
          .channels = last ? x.shape.c() : 1,
          .h = static_cast<int>(x.shape.h()),
          .w = static_cast<int>(x.shape.w()),
          .out_h = static_cast<int>(y.shape.h()),
          .out_w = static_cast<int>(y.shape.w())};
}

template <typename Layer>
kernels::PoolShape PoolShapeOf(const StepSignature& signature) {
  const bool forward = signature.phase == Phase::kForward;
  kernels::PoolShape shape = forward ? PoolShapeOf(signature.Spec(X()), signature.Spec(Y()))
                                     : PoolShapeOf(signature.Spec(Dx()), signature.Spec(Dy()));
  const Layer& layer = *signature.layer.As<Layer>();
  shape.kernel_h = static_cast<int>(layer.kernel.h);
  shape.kernel_w = static_cast<int>(layer.kernel.w);
  shape.stride_h = static_cast<int>(layer.stride.h);
  shape.stride_w = static_cast<int>(layer.stride.w);
  shape.padding_h = static_cast<int>(layer.padding.h);
  shape.padding_w = static_cast<int>(layer.padding.w);
  return shape;
}

cudaError_t MaxPoolLaunch(const LaunchArgs& a) {
  const kernels::PoolShape shape = PoolShapeOf<MaxPool>(a.signature);
  void* const index = a.Find<void>(Saved(0));
  const bool wide = index != nullptr && a.signature.Spec(Saved(0)).dtype == DType::kInt32;
  if (a.signature.phase == Phase::kForward) {
    return kernels::MaxPool(shape, a.Array(X()), a.Array(Y()), index, wide, a.stream);
  }
  return kernels::MaxPoolBackward(shape, a.Array(Dy()), index, wide, a.Array(Dx()), a.stream);
}

cudaError_t AveragePoolLaunch(const LaunchArgs& a) {
  kernels::PoolShape shape = PoolShapeOf<AveragePool>(a.signature);
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
  return kernels::GlobalAveragePoolBackward(shape, a.Array(Dy()), a.Array(Dx()), a.stream);
}

}  // namespace

absl::StatusOr<Candidates> MaxPoolCandidates(const StepSignature& signature,
                                             const SharedRuntime& runtime) {
  return OwnKernel(signature, runtime, MaxPoolLaunch);
}
absl::StatusOr<Candidates> AveragePoolCandidates(const StepSignature& signature,
                                                 const SharedRuntime& runtime) {
  return OwnKernel(signature, runtime, AveragePoolLaunch);
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
