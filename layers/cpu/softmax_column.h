// The softmax and the cross-entropy of one image or position: of SoftmaxCrossEntropy and of
// LinearCrossEntropy.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "neap/core/program/feeds.h"
#include "neap/layers/cpu/loss_columns.h"

namespace neap::cpu {

// One label's contribution to the metrics.
struct Score {
  double loss;
  bool correct;
};

inline bool IsLargest(Column<const float> logits, int64_t classes, int64_t label) {
  const float own = logits[label];
  for (int64_t c = 0; c < classes; ++c) {
    const bool beaten = c < label ? !(logits[c] < own) : !(logits[c] <= own);
    if (beaten) return false;
  }
  return true;
}

inline float Largest(Column<const float> logits, int64_t classes) {
  float largest = logits[0];
  for (int64_t c = 1; c < classes; ++c) largest = std::max(largest, logits[c]);
  return largest;
}

// y may overwrite the logits: the score reads what it needs of them first.
inline Score SoftmaxColumn(Column<const float> logits, int64_t classes, int32_t label,
                           double smoothing, Column<float> y) {
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

}  // namespace neap::cpu
