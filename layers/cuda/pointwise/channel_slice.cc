// ChannelSlice: builds launches from signatures. Channels are rows of images that are one pixel
// high: a slice is a rectangle.
#include "neap/layers/channel_slice.h"

#include "neap/layers/cuda/candidates.h"

namespace neap::cuda {
namespace {

using namespace operands;

kernels::CropShape ShapeOf(const TensorSpec& whole, const ChannelSlice& slice) {
  const bool last = whole.layout == Layout::kChannelsLast;
  const int64_t pixels = whole.shape.positions();
  const int64_t width = last ? 1 : pixels;
  return {.outer = whole.shape.n() * (last ? pixels : 1),
          .channels = 1,
          .h = whole.shape.c(),
          .w = width,
          .top = slice.first,
          .left = 0,
          .height = slice.count,
          .width = width};
}

cudaError_t LaunchSlice(const LaunchArgs& a) {
  const ChannelSlice& slice = *a.signature.layer.As<ChannelSlice>();
  if (a.signature.phase == Phase::kForward)
    return kernels::Crop(ShapeOf(a.signature.Spec(X()), slice), a.Array(X()), a.Array(Y()),
                         a.stream);
  return kernels::ZeroPad(ShapeOf(a.signature.Spec(Dx()), slice), a.Array(Dy()), a.Array(Dx()),
                          a.stream);
}

}  // namespace

absl::StatusOr<Candidates> ChannelSliceCandidates(const StepSignature& signature,
                                                  const SharedRuntime& runtime) {
  return OwnKernel(signature, runtime, LaunchSlice);
}

}  // namespace neap::cuda
