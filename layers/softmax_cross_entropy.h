// Softmax over the channels and mean cross-entropy against class indices: the end of a network.
//
//   step           reads             writes               in place
//   forward        logits, labels    y, metrics           y over logits
//   backward_data  y, labels         dx = (y - onehot)/N  dx over y
//
// inputs: 0 logits {N, C, 1, 1}, 1 labels int32 {N}; y: probabilities {N, C, 1, 1};
// state 0 metrics fp32 {2}: mean loss, number of images whose largest probability is at their
// label. A label outside [0, C) makes the loss NaN.
#pragma once

#include "neap/layers/layer.h"

namespace neap {

struct SoftmaxCrossEntropy {
  static constexpr std::string_view kType = "softmax_cross_entropy";
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  friend bool operator==(const SoftmaxCrossEntropy&, const SoftmaxCrossEntropy&) = default;
};

}  // namespace neap
