// Crop, and ZeroPad, which is the same in the other direction: builds launches from signatures.
#include "neap/layers/crop.h"

#include "neap/layers/cuda/candidates.h"
#include "neap/layers/zero_pad.h"

namespace neap::cuda {
namespace {

using namespace operands;

// The part begins at `offset` in the whole.
kernels::CropShape ShapeOf(const TensorSpec& whole, const TensorSpec& part, Extents offset) {
  const bool last = whole.layout == Layout::kChannelsLast;
  return {.outer = last ? whole.shape.n() : whole.shape.n() * whole.shape.c(),
          .channels = last ? whole.shape.c() : 1,
          .d = whole.shape.d(),
          .h = whole.shape.h(),
          .w = whole.shape.w(),
          .front = offset.d(whole.shape.spatial_axes(), 0),
          .top = offset.h(),
          .left = offset.w(),
          .depth = part.shape.d(),
          .height = part.shape.h(),
          .width = part.shape.w()};
}

cudaError_t CutOut(const LaunchArgs& a, Operand whole, Operand part, Extents offset) {
  const auto shape = ShapeOf(a.signature.Spec(whole), a.signature.Spec(part), offset);
  return kernels::Crop(shape, a.Array(whole), a.Array(part), a.stream);
}

cudaError_t Surround(const LaunchArgs& a, Operand part, Operand whole, Extents offset) {
  const auto shape = ShapeOf(a.signature.Spec(whole), a.signature.Spec(part), offset);
  return kernels::ZeroPad(shape, a.Array(part), a.Array(whole), a.stream);
}

cudaError_t CropLaunch(const LaunchArgs& a) {
  const Crop& layer = *a.signature.layer.As<Crop>();
  if (a.signature.phase == Phase::kForward) return CutOut(a, X(), Y(), layer.offset);
  return Surround(a, Dy(), Dx(), layer.offset);
}

cudaError_t ZeroPadLaunch(const LaunchArgs& a) {
  const ZeroPad& layer = *a.signature.layer.As<ZeroPad>();
  if (a.signature.phase == Phase::kForward) return Surround(a, X(), Y(), layer.offset());
  return CutOut(a, Dy(), Dx(), layer.offset());
}

}  // namespace

absl::StatusOr<Candidates> CropCandidates(const StepSignature& signature,
                                          const SharedRuntime& runtime) {
  return OwnKernel(signature, runtime, CropLaunch);
}
absl::StatusOr<Candidates> ZeroPadCandidates(const StepSignature& signature,
                                             const SharedRuntime& runtime) {
  return OwnKernel(signature, runtime, ZeroPadLaunch);
}

}  // namespace neap::cuda
