#include "neap/layers/channel_shuffle.h"

#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/kernels/transpose_runs.h"

namespace neap::cuda {
namespace {

using namespace operands;

cudaError_t LaunchShuffle(const LaunchArgs& a) {
  const bool backward = a.signature.phase == Phase::kBackwardData;
  const Operand from = backward ? Dy() : X();
  const ChannelMatrix m =
      MatrixOf(*a.signature.layer.As<ChannelShuffle>(), a.signature.Spec(from), backward);
  return kernels::TransposeRuns(
      {.outer = m.outer, .rows = m.rows, .columns = m.columns, .run = m.run}, a.Array(from),
      a.Array(backward ? Dx() : Y()), a.stream);
}

}  // namespace

absl::StatusOr<Candidates> ChannelShuffleCandidates(const StepSignature& signature,
                                                    const SharedRuntime& runtime) {
  return OwnKernel(signature, runtime, LaunchShuffle);
}

}  // namespace neap::cuda
