// ChannelShuffle, PixelShuffle and PixelUnshuffle.
#include "neap/layers/steps/permutation.h"

#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/kernels/permute.h"
#include "neap/layers/resize/permutations.h"

namespace neap::cuda {
namespace {

using namespace operands;

cudaError_t LaunchPermutation(const LaunchArgs& a) {
  const bool forward = a.signature.phase == Phase::kForward;
  return kernels::Permute(PermutationOf(a.signature), a.Array(forward ? X() : Dy()),
                          a.Array(forward ? Y() : Dx()), a.stream);
}

}  // namespace

absl::StatusOr<Candidates> PermutationCandidates(const StepSignature& signature,
                                                 const SharedRuntime& runtime) {
  return OwnKernel(signature, runtime, LaunchPermutation);
}

}  // namespace neap::cuda
