// The end of a residual branch: builds launches from signatures.
#include "neap/layers/fusion/residual_tail.h"

#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/kernels/residual_tail.h"

namespace neap::cuda {
namespace {

using namespace operands;

// Without a scale, and where a ScaleShift adds nothing, -0 is added: x * 1 + -0 is x, also for -0.
kernels::ScaleShiftNumbers NumbersOf(const LaunchArgs& a) {
  const ResidualTail& tail = *a.signature.layer.As<ResidualTail>();
  if (!tail.scale.has_value()) return {.scale = 1, .shift = -0.0F};
  const bool forward = a.signature.phase == Phase::kForward;
  return {.scale = tail.scale->scale,
          .shift = forward ? tail.scale->shift : 0,
          .scales = a.Find<float>(Param(0))};
}

kernels::DropoutMask ImageMaskOf(const LaunchArgs& a) {
  const void* const scalars = a.Find<void>(Iteration());
  if (scalars == nullptr) return {};
  const DroppedUnits dropped =
      DroppedImagesOf(a.signature, a.signature.layer.As<ResidualTail>()->drop->rate);
  return {.first = dropped.first,
          .probability = dropped.probability,
          .layer_seed = a.signature.layer_seed,
          .scalars = scalars};
}

cudaError_t LaunchTail(const LaunchArgs& a) {
  const bool forward = a.signature.phase == Phase::kForward;
  const kernels::ChannelShape shape = ChannelShapeOf(a.signature.Spec(forward ? Y() : Dy()));
  const kernels::ScaleShiftNumbers numbers = NumbersOf(a);
  const kernels::DropoutMask mask = ImageMaskOf(a);
  if (forward) {
    return kernels::ResidualTail(shape, numbers, mask, a.Array(X(0)), a.Array(X(1)), a.Array(Y()),
                                 a.stream);
  }
  if (numbers.scales == nullptr) {
    return kernels::ResidualTailGradient(shape, numbers, mask, a.Array(Dy()), a.Array(Dx(0)),
                                         a.stream);
  }
  const kernels::TailScaleGradient gradient = {a.Get<float>(ParamGrad(0)),
                                               a.signature.Accumulates(ParamGrad(0))};
  return kernels::ResidualTailBackward(shape, numbers.scales, mask, a.Array(X(0)), a.Array(Dy()),
                                       a.Array(Dx(0)), gradient, a.Reduction(), a.stream);
}

}  // namespace

absl::StatusOr<Candidates> ResidualTailCandidates(const StepSignature& signature,
                                                  const SharedRuntime& runtime) {
  RETURN_IF_ERROR(CheckFp32(signature, {Slot::kParam}));
  const TensorSpec& y = signature.Spec(signature.phase == Phase::kForward ? Y() : Dy());
  const kernels::ChannelShape shape = ChannelShapeOf(y);
  if (!signature.Has(ParamGrad(0))) {
    if (signature.Has(Param(0))) RETURN_IF_ERROR(CheckPlanesFit32(signature, shape));
    return OwnKernel(signature, runtime, LaunchTail);
  }
  RETURN_IF_ERROR(CheckFits32(signature, shape.outer * shape.inner));
  return OwnKernel(signature, runtime, LaunchTail,
                   kernels::TailScratchBytes(shape, ElementOf(y.dtype)));
}

}  // namespace neap::cuda
