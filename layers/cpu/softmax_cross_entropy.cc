#include "neap/layers/softmax_cross_entropy.h"

#include "neap/core/program/feeds.h"
#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/loss_columns.h"
#include "neap/layers/cpu/softmax_column.h"

namespace neap::cpu {
namespace {

using namespace operands;

const SoftmaxCrossEntropy& LayerOf(const LoopArgs& args) {
  return *args.signature.layer.As<SoftmaxCrossEntropy>();
}

void Forward(const LoopArgs& args) {
  const Columns columns(args.signature.Spec(X(0)));
  const float* const logits = args.Get<float>(X(0));
  const int32_t* const labels = args.Get<int32_t>(X(1));
  float* const y = args.Get<float>(Y());
  const auto smoothing = static_cast<double>(LayerOf(args).label_smoothing);
  double loss = 0;
  int64_t correct = 0;
  for (int64_t i = 0; i < columns.count; ++i) {
    const Score score = SoftmaxColumn(columns.Of(logits, i), columns.channels, labels[i], smoothing,
                                      columns.Of(y, i));
    loss += score.loss;
    correct += score.correct ? 1 : 0;
  }
  const auto labels_of_batch = static_cast<double>(columns.CountInBatch(args.signature));
  StoreMetrics(args, loss / labels_of_batch, correct);
}

void Backward(const LoopArgs& args) {
  const Columns columns(args.signature.Spec(Y()));
  const float* const probabilities = args.Get<float>(Y());
  const int32_t* const labels = args.Get<int32_t>(X(1));
  float* const gradients = args.Get<float>(Dx());
  const float factor = GradientFactor(args, LayerOf(args).weight);
  const auto count = static_cast<float>(columns.CountInBatch(args.signature));
  const float smoothing = LayerOf(args).label_smoothing;
  const float of_others = smoothing / static_cast<float>(columns.channels);
  const float of_class = 1.0F - smoothing + of_others;
  for (int64_t i = 0; i < columns.count; ++i) {
    const Column<const float> y = columns.Of(probabilities, i);
    const Column<float> dx = columns.Of(gradients, i);
    for (int64_t c = 0; c < columns.channels; ++c) {
      const float gradient = (y[c] - (c == labels[i] ? of_class : of_others)) / count * factor;
      dx[c] = labels[i] == kNoLabel ? 0.0F : gradient;
    }
  }
}

}  // namespace

absl::StatusOr<Candidates> SoftmaxForward(const StepSignature& signature) {
  return OwnLoop(signature, Forward);
}

absl::StatusOr<Candidates> SoftmaxBackward(const StepSignature& signature) {
  return OwnLoop(signature, Backward);
}

}  // namespace neap::cpu
