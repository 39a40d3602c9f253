// Crop: builds launches from signatures.
#include "neap/layers/crop.h"

#include "neap/layers/cuda/candidates.h"

namespace neap::cuda {
namespace {

using namespace operands;

cudaError_t CropLaunch(const LaunchArgs& a) {
  const Crop& layer = *a.signature.layer.As<Crop>();
  const bool forward = a.signature.phase == Phase::kForward;
  const TensorSpec& whole = a.signature.Spec(forward ? X() : Dx());
  const bool last = whole.layout == Layout::kNhwc;
  const kernels::CropShape shape = {
      .outer = last ? whole.shape.n() : whole.shape.n() * whole.shape.c(),
      .channels = last ? whole.shape.c() : 1,
      .h = whole.shape.h(),
      .w = whole.shape.w(),
      .top = layer.offset.h,
      .left = layer.offset.w,
      .height = layer.size.h,
      .width = layer.size.w};
  if (forward) return kernels::Crop(shape, a.Array(X()), a.Array(Y()), a.stream);
  return kernels::CropBackward(shape, a.Array(Dy()), a.Array(Dx()), a.stream);
}

}  // namespace

absl::StatusOr<Candidates> CropCandidates(const StepSignature& signature,
                                          const SharedRuntime& runtime) {
  return OwnKernel(signature, runtime, CropLaunch);
}

}  // namespace neap::cuda
