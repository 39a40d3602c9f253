// Losses against a target for each element of the predictions, in the mean over all elements: the
// last layer of a network for regression (MeanSquaredError), or for labels that do not exclude each
// other (BinaryCrossEntropy, FocalLoss).
//
//   step           reads             writes                    in place
//   forward        x, targets        y, metrics                y over x
//   backward_data  y, targets        dx = (dloss/dx)/E         dx over y
//     scaled loss  ..., loss_scale   dx times the scale
//
//                       y            loss of an element
//   MeanSquaredError    x            (x - target)^2
//   BinaryCrossEntropy  sigmoid(x)   -p * target * log(y) - (1 - target) * log(1 - y)
//   FocalLoss           sigmoid(x)   a * wrong^gamma * that of BinaryCrossEntropy without p
//
// where p is the weight of positive targets, a = alpha * target + (1 - alpha) * (1 - target), and
// wrong = y * (1 - target) + (1 - y) * target.
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
  float weight = 1;           // LayerSpec::loss_weight
  float positive_weight = 1;  // pos_weight of torch.nn.BCEWithLogitsLoss, of all channels
  // Errors: those of all losses, and INVALID_ARGUMENT for a weight that is negative or not finite.
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;  // empty without the weights
  friend bool operator==(const BinaryCrossEntropy&, const BinaryCrossEntropy&) = default;
};

// The focal loss of Lin et al. (Focal Loss for Dense Object Detection, equation 5), the same as
// torchvision.ops.sigmoid_focal_loss(reduction="mean"), where an alpha of 0.5 is half of none. That
// paper divides the sum by the number of positive boxes instead of E.
struct FocalLoss {
  static constexpr std::string_view kType = "focal_loss";
  float alpha = 0.25F;  // from 0 to 1
  float gamma = 2;      // at least 0
  float weight = 1;     // LayerSpec::loss_weight
  // Errors: those of all losses, and INVALID_ARGUMENT for numbers out of their range.
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const FocalLoss&, const FocalLoss&) = default;
};

}  // namespace neap
