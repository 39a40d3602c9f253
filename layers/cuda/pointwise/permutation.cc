// ChannelShuffle, PixelShuffle, PixelUnshuffle, and the layers of layers/shape.
#include "neap/layers/steps/permutation.h"

#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/kernels/permute.h"
#include "neap/layers/cuda/kernels/pooling/repeats.h"
#include "neap/layers/resize/permutations.h"

namespace neap::cuda {
namespace {

using namespace operands;

cudaError_t LaunchPermutation(const LaunchArgs& a) {
  const bool forward = a.signature.phase == Phase::kForward;
  const kernels::ConstArray from = a.Array(forward ? X() : Dy());
  const kernels::Array to = a.Array(forward ? Y() : Dx());
  if (from.data == to.data) return cudaSuccess;  // in place, a view
  return kernels::Permute(PermutationOf(a.signature), from, to, a.stream);
}

cudaError_t LaunchSumRepeats(const LaunchArgs& a) {
  return kernels::SumRepeats(PermutationOf(a.signature), a.Array(Dy()), a.Array(Dx()), a.stream);
}

}  // namespace

absl::StatusOr<Candidates> PermutationCandidates(const StepSignature& signature,
                                                 const SharedRuntime& runtime) {
  return OwnKernel(signature, runtime, LaunchPermutation);
}

absl::StatusOr<Candidates> TileCandidates(const StepSignature& signature,
                                          const SharedRuntime& runtime) {
  const bool forward = signature.phase == Phase::kForward;
  return OwnKernel(signature, runtime, forward ? LaunchPermutation : LaunchSumRepeats);
}

}  // namespace neap::cuda
