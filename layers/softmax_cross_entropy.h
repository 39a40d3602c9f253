// Softmax over the channels and mean cross-entropy against class indices, one per image or one per
// pixel: the last layer of a network.
//
//   step           reads             writes               in place
//   forward        logits, labels    y, metrics           y over logits
//   backward_data  y, labels         dx = (y - target)/L  dx over y
//     scaled loss  ..., loss_scale   dx times the scale
//
// With sub-batches, L is the number of labels of the whole batch, and forward adds to the metrics
// in every one but the first.
//
// inputs: 0 logits {N, C, H, W}; 1 labels int32 {N, H, W}, or {N} if H and W are 1, or with a
// multiple of H and of W, of which the nearest ones count (core/graph/label_grid.h); L is the
// number of labels that count. y: probabilities {N, C, H, W}, fp32 even for 16-bit logits, and then
// nothing runs in place. state 0: metrics fp32 {2}, the mean loss and the number of labels that
// have the largest probability (exact up to 2^24). A label of kNoLabel (core/program/feeds.h) adds
// nothing to the loss and has dx = 0; any other label outside [0, C) makes the loss NaN.
//
// The target of an image or pixel is 1 for its class and 0 for the others, or with label smoothing
// e (Szegedy et al., Rethinking the Inception Architecture, section 7) 1 - e + e/C and e/C, as in
// torch.nn.CrossEntropyLoss. Its loss is the sum of -target * log(y) over the classes. With class
// weights, the target of each class is multiplied by its weight, and dx = (sum of targets * y -
// target)/L. As elsewhere, the mean is over all L labels, which torch.nn.CrossEntropyLoss computes
// as reduction="sum" divided by L; its own mean divides by the labels' weights instead, and so
// couples the images of a batch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "neap/core/step/layer.h"

namespace neap {

struct SoftmaxCrossEntropy {
  static constexpr std::string_view kType = "softmax_cross_entropy";
  float label_smoothing = 0;  // in [0, 1)
  float weight = 1;           // LayerSpec::loss_weight
  // One for each class, or none: then all are 1.
  std::vector<float> class_weights = {};
  static constexpr int64_t kMaxClassWeights = 256;
  // Errors: INVALID_ARGUMENT for labels that do not suit the logits, a label smoothing outside
  // [0, 1), a weight that is not positive, and class weights of another number or that are not
  // finite and at least 0.
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  // Empty without label smoothing and weights.
  std::string Parameters() const;
  friend bool operator==(const SoftmaxCrossEntropy&, const SoftmaxCrossEntropy&) = default;
};

}  // namespace neap
