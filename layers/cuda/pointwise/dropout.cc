// Dropout and StochasticDepth: builds launches from signatures.
#include "neap/layers/dropout.h"

#include "neap/layers/cuda/candidates.h"

namespace neap::cuda {
namespace {

using namespace operands;

cudaError_t DropoutLaunch(const LaunchArgs& a) {
  const bool forward = a.signature.phase == Phase::kForward;
  const kernels::ConstArray from = a.Array(forward ? X() : Dy());
  const kernels::Array to = a.Array(forward ? Y() : Dx());
  const void* const scalars = a.Find<void>(Iteration());
  if (scalars == nullptr) {  // inference
    return from.data == to.data ? cudaSuccess
                                : kernels::Add(&from, 1, to, a.Elements(Y()), a.stream);
  }
  const DroppedUnits dropped = DroppedUnitsOf(a.signature);
  const kernels::DropoutMask mask = {.first = dropped.first,
                                     .probability = dropped.probability,
                                     .layer_seed = a.signature.layer_seed,
                                     .scalars = scalars};
  return kernels::Dropout(ChannelShapeOf(dropped.units), mask, from, to, a.stream);
}

}  // namespace

absl::StatusOr<Candidates> DropoutCandidates(const StepSignature& signature,
                                             const SharedRuntime& runtime) {
  return OwnKernel(signature, runtime, DropoutLaunch);
}

}  // namespace neap::cuda
