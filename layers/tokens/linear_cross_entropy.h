// The last linear layer of a language model and SoftmaxCrossEntropy behind it in one: the logits
// {N, classes, T}, the largest tensor of such a network, never exist.
//
//   step                     reads                       writes              in place
//   training: forward                                    y, metrics: zeros
//             backward_data  x, labels, weight, [bias]   dx, dweight,        dx over x
//                                                        [dbias]; adds to metrics
//               scaled loss  ..., loss_scale             all gradients times the scale
//   inference: forward       x, labels, weight, [bias]   y, metrics
//
// inputs: 0 x {N, C, T}; 1 labels int32 {N, T}. The same for images and volumes, and {N} where
// there is one position. logits = weight x + bias at each position; the loss is that of
// SoftmaxCrossEntropy, without label smoothing: the mean of log-sum-exp minus the label's logit
// over all labels of the batch, in training also those that are kNoLabel (core/program/feeds.h),
// which add nothing to the loss and have no gradient. Any other label outside [0, classes) makes
// the loss NaN. y {N, 1, T}, fp32, is the loss of each label in inference. state 0: metrics fp32
// {2}, the mean loss and the number of labels that have the first of the largest logits.
//
// params: 0 weight {classes, C, 1} in the type and layout of x, that of a Convolution with a kernel
// of 1, {classes, C} in files; 1 bias {classes} if there is one. An Embedding may share the weight
// (Graph::Share()), and a Convolution that makes logits to predict from.
//
// How it is computed. Kernels go through the positions in chunks, whose logits alone lie in the
// workspace. Training multiplies matrices three times: a chunk's logits become the loss and, where
// they lie, their gradient g, and then dweight += g x^T and dx = weight^T g, in this order, so dx
// may overwrite x. All of that runs in backward, because nothing runs between a loss and its
// backward. The alternatives are worse:
//   * Forward computes the loss and keeps the log-sum-exp of each position, and backward computes
//     the logits again: a fourth product, which is a third more time. In GPT-2 small, a third of
//     whose products are this layer's, it would be a tenth of an iteration.
//   * Forward computes the gradients (Liger, arXiv:2410.10989): also three products, but dweight
//     exists twice where it is a sum over sub-batches or with an embedding, and both gradients are
//     copied, or multiplied by the loss scale, in backward.
// Logits have the type of x, as those of a Convolution would, and all sums are fp32: dweight is
// summed over the chunks in their order. Chunks depend on the engine and the shape alone, so the
// bits are the same in every run.
//
//   net.Loss("loss", LinearCrossEntropy{.classes = 50257}, {x, "next"});
//   net.Share("loss.weight", "wte.weight");
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "neap/core/step/layer.h"
#include "neap/layers/initial_weights.h"

namespace neap {

// Errors: INVALID_ARGUMENT for labels of another shape than x, and for classes or a weight that are
// not positive.
struct LinearCrossEntropy {
  static constexpr std::string_view kType = "linear_cross_entropy";
  int64_t classes = 0;
  bool bias = false;
  float weight = 1;  // LayerSpec::loss_weight
  InitialWeights init = {};
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const LinearCrossEntropy&, const LinearCrossEntropy&) = default;
};

}  // namespace neap
