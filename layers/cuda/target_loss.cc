// Losses against targets: builds launches from signatures.
#include "neap/layers/target_loss.h"

#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/candidates.h"

namespace neap::cuda {
namespace {

using namespace operands;

cudaError_t TargetLossLaunch(const LaunchArgs& a) {
  const TensorSpec& y = a.signature.Spec(Y());
  const kernels::TargetLossKind kind = a.signature.layer.As<MeanSquaredError>() != nullptr
                                           ? kernels::TargetLossKind::kSquaredError
                                           : kernels::TargetLossKind::kSigmoidCrossEntropy;
  const kernels::ChannelShape shape = ChannelShapeOf(y);
  const float* const targets = a.Find<float>(X(1));
  const int64_t elements_of_batch = a.signature.part.WholeCount(y.elements(), y.shape.n());
  if (a.signature.phase != Phase::kForward) {
    return kernels::TargetLossBackward(kind, shape, elements_of_batch, a.Get<float>(Y()), targets,
                                       a.Find<LossScale>(LossScaling()), a.Array(Dx()), a.stream);
  }
  const kernels::LossMetrics metrics = {
      .mean_and_correct = a.signature.rerun ? nullptr : a.Find<float>(State(0)),
      .add = a.signature.Accumulates(State(0))};
  return kernels::TargetLoss(kind, shape, elements_of_batch, a.Array(X()),
                             metrics.mean_and_correct == nullptr ? nullptr : targets,
                             a.Get<float>(Y()), metrics, a.run.workspace, a.stream);
}

}  // namespace

absl::StatusOr<Candidates> TargetLossCandidates(const StepSignature& signature,
                                                const SharedRuntime& runtime) {
  RETURN_IF_ERROR(CheckFp32(signature, {Slot::kOutput}));
  const TensorSpec& y = signature.Spec(Y());
  const int64_t pixels = y.elements() / y.shape.c();
  RETURN_IF_ERROR(CheckFits32(signature, pixels == y.shape.n() ? y.elements() : pixels));
  const bool measures = signature.Has(State(0)) && !signature.rerun;
  const int64_t scratch = kernels::LossScratchBytes(ChannelShapeOf(y));
  return OwnKernel(signature, runtime, TargetLossLaunch, measures ? scratch : 0);
}

}  // namespace neap::cuda
