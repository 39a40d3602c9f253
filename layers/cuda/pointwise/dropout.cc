// Dropout: builds launches from signatures.
#include "neap/layers/dropout.h"

#include "neap/layers/cuda/candidates.h"

namespace neap::cuda {
namespace {

using namespace operands;

cudaError_t DropoutLaunch(const LaunchArgs& a) {
  const bool forward = a.signature.phase == Phase::kForward;
  const kernels::ConstArray from = a.Array(forward ? X() : Dy());
  const kernels::Array to = a.Array(forward ? Y() : Dx());
  const int64_t n = a.Elements(forward ? Y() : Dx());
  const void* const scalars = a.Find<void>(Iteration());
  if (scalars == nullptr) {  // inference
    return from.data == to.data ? cudaSuccess : kernels::Add(&from, 1, to, n, a.stream);
  }
  const float probability = a.signature.layer.As<Dropout>()->probability;
  const int64_t images = a.signature.Spec(forward ? Y() : Dx()).shape.n();
  const int64_t first = a.signature.part.CountBefore(n, images);
  return kernels::Dropout(from, to, n, first, probability, a.signature.layer_seed, scalars,
                          a.stream);
}

}  // namespace

absl::StatusOr<Candidates> DropoutCandidates(const StepSignature& signature,
                                             const SharedRuntime& runtime) {
  return OwnKernel(signature, runtime, DropoutLaunch);
}

}  // namespace neap::cuda
