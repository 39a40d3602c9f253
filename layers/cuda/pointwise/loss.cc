// Losses: builds launches from signatures.
#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"

namespace neap::cuda {
namespace {

using namespace operands;

// Without a place if the step does not measure.
kernels::LossMetrics MetricsOf(const LaunchArgs& a) {
  return {.mean_and_correct = a.signature.rerun ? nullptr : a.Find<float>(State(0)),
          .add = a.signature.Accumulates(State(0))};
}

// The labels or targets, which a step that does not measure need not read.
template <typename T>
const T* Measured(const LaunchArgs& a, const kernels::LossMetrics& metrics) {
  return metrics.mean_and_correct == nullptr ? nullptr : a.Find<T>(X(1));
}

cudaError_t SoftmaxLaunch(const LaunchArgs& a) {
  const kernels::ChannelShape shape = ChannelShapeOf(a.signature.Spec(Y()));
  const int64_t labels_of_batch =
      a.signature.part.WholeCount(shape.outer * shape.inner, a.signature.Spec(Y()).shape.n());
  const auto& [smoothing, weight] = *a.signature.layer.As<SoftmaxCrossEntropy>();
  if (a.signature.phase != Phase::kForward) {
    return kernels::SoftmaxCrossEntropyBackward(
        shape, labels_of_batch, smoothing, weight, a.Get<float>(Y()), a.Find<int32_t>(X(1)),
        a.Find<LossScale>(LossScaling()), a.Array(Dx()), a.stream);
  }
  const kernels::LossMetrics metrics = MetricsOf(a);
  return kernels::SoftmaxCrossEntropy(shape, labels_of_batch, smoothing, a.Array(X()),
                                      Measured<int32_t>(a, metrics), a.Get<float>(Y()), metrics,
                                      a.run.workspace, a.stream);
}

cudaError_t TargetLossLaunch(const LaunchArgs& a) {
  const TensorSpec& y = a.signature.Spec(Y());
  const auto* const squared = a.signature.layer.As<MeanSquaredError>();
  const kernels::TargetLossKind kind = squared != nullptr
                                           ? kernels::TargetLossKind::kSquaredError
                                           : kernels::TargetLossKind::kSigmoidCrossEntropy;
  const float weight =
      squared != nullptr ? squared->weight : a.signature.layer.As<BinaryCrossEntropy>()->weight;
  const kernels::ChannelShape shape = ChannelShapeOf(y);
  const int64_t elements_of_batch = a.signature.part.WholeCount(y.elements(), y.shape.n());
  if (a.signature.phase != Phase::kForward) {
    return kernels::TargetLossBackward(kind, shape, elements_of_batch, weight, a.Get<float>(Y()),
                                       a.Find<float>(X(1)), a.Find<LossScale>(LossScaling()),
                                       a.Array(Dx()), a.stream);
  }
  const kernels::LossMetrics metrics = MetricsOf(a);
  return kernels::TargetLoss(kind, shape, elements_of_batch, a.Array(X()),
                             Measured<float>(a, metrics), a.Get<float>(Y()), metrics,
                             a.run.workspace, a.stream);
}

absl::StatusOr<Candidates> LossCandidates(const StepSignature& signature,
                                          const SharedRuntime& runtime, OwnLaunch launch) {
  RETURN_IF_ERROR(CheckFp32(signature, {Slot::kOutput}));
  const TensorSpec& y = signature.Spec(Y());
  const int64_t pixels = y.elements() / y.shape.c();
  RETURN_IF_ERROR(CheckFits32(signature, pixels == y.shape.n() ? y.elements() : pixels));
  const bool measures = signature.Has(State(0)) && !signature.rerun;
  const int64_t scratch = kernels::LossScratchBytes(ChannelShapeOf(y));
  return OwnKernel(signature, runtime, launch, measures ? scratch : 0);
}

}  // namespace

absl::StatusOr<Candidates> SoftmaxCandidates(const StepSignature& signature,
                                             const SharedRuntime& runtime) {
  return LossCandidates(signature, runtime, SoftmaxLaunch);
}

absl::StatusOr<Candidates> TargetLossCandidates(const StepSignature& signature,
                                                const SharedRuntime& runtime) {
  return LossCandidates(signature, runtime, TargetLossLaunch);
}

}  // namespace neap::cuda
