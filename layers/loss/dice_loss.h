// Soft Dice of softmax probabilities against class indices, with or without cross-entropy: the loss
// of segmentation networks, as nnU-Net trains them.
//
//   step           reads               writes              in place
//   forward        logits, labels      y, metrics, [sums]  y over logits
//   backward_data  y, labels, sums     dx                  dx over y
//     scaled loss  ..., loss_scale     dx times the scale
//
// inputs: 0 logits {N, K, H, W}; 1 labels int32 as of SoftmaxCrossEntropy, of which those nearest
// to the logits count (core/graph/label_grid.h). y: probabilities of the K classes, fp32 even for
// 16-bit logits, and then nothing runs in place. state 0: metrics fp32 {2}, the loss and the number
// of labels that have the largest probability.
//
// A set is an image, or with `batch` all of them. Of the known labels of a set, let t be 1 for the
// class of a position and 0 for the others, and
//
//   I = sum of y t,  P = sum of y,  G = sum of t,  dice = (2 I + smooth) / (P + G + smooth)
//
// for each class, with the background, class 0, or without it. The loss of a set is
//
//   -(mean of dice over these classes) + cross_entropy * (mean of -log y of the labels' classes)
//
// and that of the batch is the mean over the sets. It is negative where predictions are good. A
// label is unknown if it is kNoLabel (core/program/feeds.h): its position counts in none of these
// sums and has no gradient, and a set without known labels adds 0. Any other label outside [0, K)
// makes the loss NaN.
//
// saved: 0 sums fp32 {sets, 2 K + 1}, of a set 2 / D and dice / D of each class, where D = P + G +
// smooth and both are 0 for a background that does not count, and cross_entropy / number of its
// known labels. With C classes that count, and S sets of the whole batch,
//
//   g[k] = (dice / D - t 2 / D) / C,  dx[k] = (y[k] (g[k] - sum of y g) + ce (y[k] - t)) / S
//
// Images are independent unless they are one set: then the batch cannot be run in sub-batches.
// Among ranks, a set is a rank's part of the batch, and the loss is the mean over them.
#pragma once

#include <string>

#include "neap/core/step/layer.h"

namespace neap {

// As nnU-Net's DC_and_CE_loss of MemoryEfficientSoftDiceLoss (nnunetv2/training/loss), whose
// do_bg, batch_dice, smooth and weight_ce the fields are; nnU-Net trains with those of
// NnUNetLoss(). Without cross-entropy it is monai.losses.DiceLoss(softmax=True) less 1, with
// smooth_nr = smooth_dr = smooth. With labels that are unknown, nnU-Net's differs: its
// cross-entropy is a mean over all known positions of the batch, not over those of each set and
// then over sets, and its image without known labels adds -1, the Dice of nothing, instead of 0.
struct DiceLoss {
  static constexpr std::string_view kType = "dice_loss";
  bool background = true;
  bool batch = false;
  float smooth = 1e-5F;
  float cross_entropy = 0;  // its weight; 0: none
  float weight = 1;         // LayerSpec::loss_weight
  // Errors: INVALID_ARGUMENT for labels that do not suit the logits, a smooth that is not positive,
  // a weight that is not positive, one of the cross-entropy that is negative, and one class without
  // the background.
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const DiceLoss&, const DiceLoss&) = default;
};

// What nnU-Net minimises: Dice without the background, and cross-entropy.
constexpr DiceLoss NnUNetLoss() { return {.background = false, .cross_entropy = 1}; }

// Whether a loss is one of neap's that make the softmax of their input and compare it with labels:
// this one or SoftmaxCrossEntropy. Others may take labels, too: LinearCrossEntropy makes the logits
// as well.
bool MakesSoftmax(const Layer& loss);

}  // namespace neap
