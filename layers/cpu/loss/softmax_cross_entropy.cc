#include "neap/layers/softmax_cross_entropy.h"

#include <cstdint>
#include <numeric>
#include <vector>

#include "neap/layers/cpu/loss/softmax_column.h"

namespace neap::cpu {
namespace {

using namespace operands;

const SoftmaxCrossEntropy& LayerOf(const LoopArgs& args) {
  return *args.signature.layer.As<SoftmaxCrossEntropy>();
}

void Forward(const LoopArgs& args) {
  const Columns columns(args.signature.Spec(X(0)));
  const LabelColumn labels(args, columns);
  const float* const logits = args.Get<float>(X(0));
  float* const y = args.Get<float>(Y());
  const SoftmaxCrossEntropy& layer = LayerOf(args);
  const ClassTargets targets = {.smoothing = static_cast<double>(layer.label_smoothing),
                                .weights = layer.class_weights};
  double loss = 0;
  int64_t correct = 0;
  for (int64_t i = 0; i < columns.count; ++i) {
    const ClassScore score = SoftmaxColumn(columns.Of(logits, i), columns.channels, labels[i],
                                           targets, columns.Of(y, i));
    loss += score.loss;
    correct += score.correct ? 1 : 0;
  }
  const auto labels_of_batch = static_cast<double>(columns.CountInBatch(args.signature));
  StoreMetrics(args, loss / labels_of_batch, correct);
}

void Backward(const LoopArgs& args) {
  const Columns columns(args.signature.Spec(Y()));
  const LabelColumn labels(args, columns);
  const float* const probabilities = args.Get<float>(Y());
  float* const gradients = args.Get<float>(Dx());
  const SoftmaxCrossEntropy& layer = LayerOf(args);
  const std::vector<float>& weights = layer.class_weights;
  const float factor = GradientFactor(args, layer.weight);
  const auto count = static_cast<float>(columns.CountInBatch(args.signature));
  const float of_others = layer.label_smoothing / static_cast<float>(columns.channels);
  const float of_own = 1.0F - layer.label_smoothing;
  const float of_all = of_others * std::accumulate(weights.begin(), weights.end(), 0.0F);
  const auto weight_of = [&](int64_t c) {
    return weights.empty() ? 1.0F : weights[static_cast<size_t>(c)];
  };
  for (int64_t i = 0; i < columns.count; ++i) {
    const Column<const float> y = columns.Of(probabilities, i);
    const Column<float> dx = columns.Of(gradients, i);
    const int32_t label = labels[i];
    const bool is_class = label >= 0 && label < columns.channels;
    const float sum =
        weights.empty() ? 1.0F : (is_class ? of_own * weight_of(label) : 0.0F) + of_all;
    for (int64_t c = 0; c < columns.channels; ++c) {
      const float target = weight_of(c) * (c == label ? of_own + of_others : of_others);
      const float gradient = (sum * y[c] - target) / count * factor;
      dx[c] = label == kNoLabel ? 0.0F : gradient;
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
