// Losses against a target for each element of the predictions, in the mean over all elements: the
// last layer of a network for regression (MeanSquaredError), or for labels that do not exclude each
// other (BinaryCrossEntropy).
//
//   step           reads             writes                    in place
//   forward        x, targets        y, metrics                y over x
//   backward_data  y, targets        dx = k * (y - targets)/E  dx over y
//     scaled loss  ..., loss_scale   dx times the scale
//
//                       y            k   loss of an element
//   MeanSquaredError    x            2   (x - target)^2
//   BinaryCrossEntropy  sigmoid(x)   1   -target * log(y) - (1 - target) * log(1 - y)
//
// inputs: 0 predictions x {N, C, H, W}; 1 targets fp32 of the same shape and layout
// (core/graph/source.h). y has the shape of x, and is fp32 even for 16-bit x, and then nothing runs
// in place. E is the number of elements of x, or with sub-batches of the whole batch, and forward
// adds to the metrics in every one but the first.
//
// state 0: metrics fp32 {2}, the mean loss and the number of images or pixels {N, H, W} with the
// largest x where the largest target is, the first of equal ones each; with targets that are 1 for
// a class and 0 for the others, the number of correct predictions. With one channel it is 0.
// A target of kNoTarget (core/program/feeds.h), a NaN, adds nothing to the loss and has dx = 0.
#pragma once

#include <string>

#include "neap/core/step/layer.h"

namespace neap {

// The same as torch.nn.MSELoss.
struct MeanSquaredError {
  static constexpr std::string_view kType = "mean_squared_error";
  float weight = 1;  // LayerSpec::loss_weight
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;  // empty without the weight
  friend bool operator==(const MeanSquaredError&, const MeanSquaredError&) = default;
};

// The same as torch.nn.BCEWithLogitsLoss: x are logits, of any size, and targets are from 0 to 1.
struct BinaryCrossEntropy {
  static constexpr std::string_view kType = "binary_cross_entropy";
  float weight = 1;  // LayerSpec::loss_weight
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;  // empty without the weight
  friend bool operator==(const BinaryCrossEntropy&, const BinaryCrossEntropy&) = default;
};

}  // namespace neap
