// ScaleShift: builds launches from signatures.
#include "neap/layers/scale_shift.h"

#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/kernels/scale_shift.h"

namespace neap::cuda {
namespace {

using namespace operands;

cudaError_t LaunchScaleShift(const LaunchArgs& a) {
  const auto [scale, shift] = *a.signature.layer.As<ScaleShift>();
  if (a.signature.phase == Phase::kForward)
    return kernels::ScaleShift(a.Array(X()), a.Array(Y()), a.Elements(Y()), scale, shift, a.stream);
  return kernels::ScaleShift(a.Array(Dy()), a.Array(Dx()), a.Elements(Dx()), scale, 0, a.stream);
}

}  // namespace

absl::StatusOr<Candidates> ScaleShiftCandidates(const StepSignature& signature,
                                                const SharedRuntime& runtime) {
  return OwnKernel(signature, runtime, LaunchScaleShift);
}

}  // namespace neap::cuda
