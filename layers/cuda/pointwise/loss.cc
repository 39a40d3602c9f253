// Losses: builds launches from signatures.
#include "neap/layers/cuda/kernels/loss/loss.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "neap/core/base/status_macros.h"
#include "neap/core/graph/label_grid.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/loss/dice_loss.h"
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

// Without labels if the step need not read them.
kernels::Labels LabelsOf(const LaunchArgs& a, bool reads) {
  if (!reads) return {};
  kernels::Labels labels = {.labels = a.Find<int32_t>(X(1))};
  const Shape& y = a.signature.Spec(Y()).shape;
  const Shape& of = a.signature.Spec(X(1)).shape;
  if (of.elements() == y.n() * y.positions()) return labels;  // of other axes than y, perhaps
  const LabelGrid grid = *LabelGridOf(y, of);
  std::copy(grid.extents.begin(), grid.extents.end(), labels.extents);
  std::copy(grid.stride.begin(), grid.stride.end(), labels.stride);
  return labels;
}

kernels::ClassTargets ClassTargetsOf(const SoftmaxCrossEntropy& layer) {
  static_assert(kernels::ClassTargets::kMaxWeights == SoftmaxCrossEntropy::kMaxClassWeights);
  kernels::ClassTargets targets = {.smoothing = layer.label_smoothing};
  const std::vector<float>& weights = layer.class_weights;
  if (weights.empty()) return targets;
  targets.weighted = static_cast<int>(weights.size());
  std::copy(weights.begin(), weights.end(), targets.weights);
  targets.mean_weight =
      std::accumulate(weights.begin(), weights.end(), 0.0F) / static_cast<float>(weights.size());
  return targets;
}

cudaError_t SoftmaxLaunch(const LaunchArgs& a) {
  const kernels::ChannelShape shape = ChannelShapeOf(a.signature.Spec(Y()));
  const int64_t labels_of_batch =
      a.signature.part.WholeCount(shape.outer * shape.inner, a.signature.Spec(Y()).shape.n());
  const SoftmaxCrossEntropy& layer = *a.signature.layer.As<SoftmaxCrossEntropy>();
  const kernels::ClassTargets targets = ClassTargetsOf(layer);
  if (a.signature.phase != Phase::kForward) {
    return kernels::SoftmaxCrossEntropyBackward(
        shape, labels_of_batch, targets, layer.weight, a.Get<float>(Y()), LabelsOf(a, true),
        a.Find<LossScale>(LossScaling()), a.Array(Dx()), a.stream);
  }
  const kernels::LossMetrics metrics = MetricsOf(a);
  return kernels::SoftmaxCrossEntropy(shape, labels_of_batch, targets, a.Array(X()),
                                      LabelsOf(a, metrics.mean_and_correct != nullptr),
                                      a.Get<float>(Y()), metrics, a.run.workspace, a.stream);
}

kernels::DiceShape DiceShapeOf(const StepSignature& signature) {
  const DiceLoss& layer = *signature.layer.As<DiceLoss>();
  const kernels::ChannelShape images = ChannelShapeOf(signature.Spec(Y()));
  const int64_t images_of_set = layer.batch ? images.outer : 1;
  const int64_t whole = signature.part.WholeCount(images.outer, images.outer);
  return {.images = images,
          .batch = layer.batch,
          .first_class = layer.background ? 0 : 1,
          .share = static_cast<float>(images_of_set) / static_cast<float>(whole)};
}

cudaError_t DiceLaunch(const LaunchArgs& a) {
  const kernels::DiceShape shape = DiceShapeOf(a.signature);
  const DiceLoss& layer = *a.signature.layer.As<DiceLoss>();
  if (a.signature.phase != Phase::kForward) {
    return kernels::DiceLossBackward(shape, layer.weight, a.Get<float>(Y()), LabelsOf(a, true),
                                     a.Get<float>(Saved(0)), a.Find<LossScale>(LossScaling()),
                                     a.Array(Dx()), a.stream);
  }
  const kernels::LossMetrics metrics = MetricsOf(a);
  float* const saved = a.Find<float>(Saved(0));
  const bool sums = saved != nullptr || metrics.mean_and_correct != nullptr;
  return kernels::DiceLoss(shape, layer.smooth, layer.cross_entropy, a.Array(X()),
                           LabelsOf(a, sums), a.Get<float>(Y()), saved, metrics, a.run.workspace,
                           a.stream);
}

kernels::TargetLossKind KindOf(const Layer& layer) {
  using Function = kernels::TargetLossKind::Function;
  if (const auto* const focal = layer.As<FocalLoss>())
    return {.function = Function::kFocal, .alpha = focal->alpha, .gamma = focal->gamma};
  if (const auto* const binary = layer.As<BinaryCrossEntropy>()) {
    return {.function = Function::kSigmoidCrossEntropy, .positive_weight = binary->positive_weight};
  }
  return {.function = Function::kSquaredError};
}

float WeightOf(const Layer& layer) {
  if (const auto* const focal = layer.As<FocalLoss>()) return focal->weight;
  if (const auto* const binary = layer.As<BinaryCrossEntropy>()) return binary->weight;
  return layer.As<MeanSquaredError>()->weight;
}

cudaError_t TargetLossLaunch(const LaunchArgs& a) {
  const TensorSpec& y = a.signature.Spec(Y());
  const kernels::TargetLossKind kind = KindOf(a.signature.layer);
  const kernels::ChannelShape shape = ChannelShapeOf(y);
  const int64_t elements_of_batch = a.signature.part.WholeCount(y.elements(), y.shape.n());
  if (a.signature.phase != Phase::kForward) {
    return kernels::TargetLossBackward(kind, shape, elements_of_batch, WeightOf(a.signature.layer),
                                       a.Get<float>(Y()), a.Find<float>(X(1)),
                                       a.Find<LossScale>(LossScaling()), a.Array(Dx()), a.stream);
  }
  const kernels::LossMetrics metrics = MetricsOf(a);
  const float* const targets = metrics.mean_and_correct == nullptr ? nullptr : a.Find<float>(X(1));
  return kernels::TargetLoss(kind, shape, elements_of_batch, a.Array(X()), targets,
                             a.Get<float>(Y()), metrics, a.run.workspace, a.stream);
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

absl::StatusOr<Candidates> DiceCandidates(const StepSignature& signature,
                                          const SharedRuntime& runtime) {
  RETURN_IF_ERROR(CheckFp32(signature, {Slot::kOutput}));
  const kernels::DiceShape shape = DiceShapeOf(signature);
  RETURN_IF_ERROR(CheckFits32(signature, kernels::DiceCount(shape)));
  const bool forward = signature.phase == Phase::kForward;
  const int64_t scratch = kernels::DiceScratchBytes(shape);
  return OwnKernel(signature, runtime, DiceLaunch, forward ? scratch : 0);
}

}  // namespace neap::cuda
