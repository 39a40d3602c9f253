// The loss: builds launches from signatures.
#include "neap/layers/softmax_cross_entropy.h"

#include "neap/core/base/status_macros.h"
#include "neap/layers/cuda/candidates.h"

namespace neap::cuda {
namespace {

using namespace operands;

cudaError_t SoftmaxLaunch(const LaunchArgs& a) {
  const bool forward = a.signature.phase == Phase::kForward;
  const kernels::ChannelShape shape = ChannelShapeOf(a.signature.Spec(Y()));
  const int32_t* const labels = a.Find<int32_t>(X(1));
  const int64_t labels_of_batch =
      a.signature.part.WholeCount(shape.outer * shape.inner, a.signature.Spec(Y()).shape.n());
  const float smoothing = a.signature.layer.As<SoftmaxCrossEntropy>()->label_smoothing;
  if (!forward) {
    return kernels::SoftmaxCrossEntropyBackward(
        shape, labels_of_batch, smoothing, a.Get<float>(Y()), labels,
        a.Find<LossScale>(LossScaling()), a.Array(Dx()), a.stream);
  }
  const kernels::LossMetrics metrics = {
      .mean_and_correct = a.signature.rerun ? nullptr : a.Find<float>(State(0)),
      .add = a.signature.Accumulates(State(0))};
  return kernels::SoftmaxCrossEntropy(shape, labels_of_batch, smoothing, a.Array(X()),
                                      metrics.mean_and_correct == nullptr ? nullptr : labels,
                                      a.Get<float>(Y()), metrics, a.run.workspace, a.stream);
}

}  // namespace

absl::StatusOr<Candidates> SoftmaxCandidates(const StepSignature& signature,
                                             const SharedRuntime& runtime) {
  RETURN_IF_ERROR(CheckFp32(signature, {Slot::kOutput}));
  const TensorSpec& y = signature.Spec(Y());
  const int64_t labels = y.elements() / y.shape.c();
  RETURN_IF_ERROR(CheckFits32(signature, labels == y.shape.n() ? y.elements() : labels));
  const bool measures = signature.Has(State(0)) && !signature.rerun;
  const int64_t scratch = kernels::LossScratchBytes(ChannelShapeOf(signature.Spec(Y())));
  return OwnKernel(signature, runtime, SoftmaxLaunch, measures ? scratch : 0);
}

}  // namespace neap::cuda
