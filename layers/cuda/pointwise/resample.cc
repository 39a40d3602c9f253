// Resize and AdaptiveAveragePool: builds launches from signatures.
#include "neap/layers/cuda/kernels/pooling/resample.h"

#include "neap/layers/cuda/candidates.h"
#include "neap/layers/resize/resample_axes.h"

namespace neap::cuda {
namespace {

using namespace operands;

cudaError_t LaunchResample(const LaunchArgs& a) {
  const bool backward = a.signature.phase == Phase::kBackwardData;
  const TensorSpec& read = a.signature.Spec(backward ? Dy() : X());
  const bool last = read.layout == Layout::kChannelsLast;
  const kernels::ResampleShape shape = {.outer = read.shape.n() * (last ? 1 : read.shape.c()),
                                        .channels = last ? read.shape.c() : 1,
                                        .axes = ResampleAxesOf(a.signature),
                                        .backward = backward};
  return kernels::Resample(shape, a.Array(backward ? Dy() : X()), a.Array(backward ? Dx() : Y()),
                           a.stream);
}

}  // namespace

absl::StatusOr<Candidates> ResampleCandidates(const StepSignature& signature,
                                              const SharedRuntime& runtime) {
  return OwnKernel(signature, runtime, LaunchResample);
}

}  // namespace neap::cuda
