#include "neap/layers/softmax_cross_entropy.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "neap/core/program/feeds.h"
#include "neap/layers/cpu/candidates.h"
#include "neap/layers/cpu/loss_columns.h"

namespace neap::cpu {
namespace {

using namespace operands;

// One label's contribution to the metrics.
struct Score {
  double loss;
  bool correct;
};

bool IsLargest(Column<const float> logits, int64_t classes, int64_t label) {
  const float own = logits[label];
  for (int64_t c = 0; c < classes; ++c) {
    const bool beaten = c < label ? !(logits[c] < own) : !(logits[c] <= own);
    if (beaten) return false;
  }
  return true;
}

float Largest(Column<const float> logits, int64_t classes) {
  float largest = logits[0];
  for (int64_t c = 1; c < classes; ++c) largest = std::max(largest, logits[c]);
  return largest;
}

// y may overwrite the logits: the score reads what it needs of them first.
Score SoftmaxColumn(Column<const float> logits, int64_t classes, int32_t label, double smoothing,
                    Column<float> y) {
  const float largest = Largest(logits, classes);
  const bool valid = label >= 0 && label < classes;
  const float own = valid ? logits[label] - largest : std::numeric_limits<float>::quiet_NaN();
  const bool correct = valid && IsLargest(logits, classes, label);
  double sum = 0, shifted = 0;
  for (int64_t c = 0; c < classes; ++c) {
    shifted += static_cast<double>(logits[c] - largest);
    y[c] = std::exp(logits[c] - largest);
    sum += static_cast<double>(y[c]);
  }
  const float scale = static_cast<float>(1.0 / sum);
  for (int64_t c = 0; c < classes; ++c) y[c] *= scale;
  if (label == kNoLabel) return {.loss = 0, .correct = false};
  const double of_class = std::log(sum) - static_cast<double>(own);
  if (smoothing == 0) return {.loss = of_class, .correct = correct};
  const double of_all = std::log(sum) - shifted / static_cast<double>(classes);
  return {.loss = (1 - smoothing) * of_class + smoothing * of_all, .correct = correct};
}

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
