// The softmax over the channels of one image or position, and its cross-entropy: of
// SoftmaxCrossEntropy, DiceLoss and LinearCrossEntropy.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/types/span.h"
#include "neap/core/program/feeds.h"
#include "neap/layers/cpu/loss/loss_columns.h"

namespace neap::cpu {

// One label's contribution to the metrics.
struct ClassScore {
  double loss;
  bool correct;
};

// What the targets of classes are besides 1 for the label's.
struct ClassTargets {
  double smoothing = 0;
  absl::Span<const float> weights = {};  // of the classes; empty: 1

  double WeightOf(int64_t c) const {
    return weights.empty() ? 1.0 : static_cast<double>(weights[static_cast<size_t>(c)]);
  }
};

inline bool IsLargest(Column<const float> logits, int64_t classes, int64_t label) {
  const float own = logits[label];
  for (int64_t c = 0; c < classes; ++c) {
    const bool beaten = c < label ? !(logits[c] < own) : !(logits[c] <= own);
    if (beaten) return false;
  }
  return true;
}

// y may overwrite the logits: the score reads what it needs of them first.
inline ClassScore SoftmaxColumn(Column<const float> logits, int64_t classes, int32_t label,
                                const ClassTargets& targets, Column<float> y) {
  float largest = logits[0];
  for (int64_t c = 1; c < classes; ++c) largest = std::max(largest, logits[c]);
  const bool valid = label >= 0 && label < classes;
  const float own = valid ? logits[label] - largest : std::numeric_limits<float>::quiet_NaN();
  const bool correct = valid && IsLargest(logits, classes, label);
  double sum = 0, shifted = 0, weights = 0;
  for (int64_t c = 0; c < classes; ++c) {
    shifted += targets.WeightOf(c) * static_cast<double>(logits[c] - largest);
    weights += targets.WeightOf(c);
    y[c] = std::exp(logits[c] - largest);
    sum += static_cast<double>(y[c]);
  }
  const float scale = static_cast<float>(1.0 / sum);
  for (int64_t c = 0; c < classes; ++c) y[c] *= scale;
  if (label == kNoLabel) return {.loss = 0, .correct = false};
  const double of_class =
      (valid ? targets.WeightOf(label) : 1.0) * (std::log(sum) - static_cast<double>(own));
  if (targets.smoothing == 0) return {.loss = of_class, .correct = correct};
  const double of_all = (weights * std::log(sum) - shifted) / static_cast<double>(classes);
  return {.loss = (1 - targets.smoothing) * of_class + targets.smoothing * of_all,
          .correct = correct};
}

}  // namespace neap::cpu
