// A network with another loss.
//
//   ASSIGN_OR_RETURN(Graph net, nets::Build("resnet50", {.batch = 128}));
//   ASSIGN_OR_RETURN(Graph smoothed, nets::WithLabelSmoothing(net, 0.1F));
//   ASSIGN_OR_RETURN(Graph multilabel, nets::WithTargetLoss(net, BinaryCrossEntropy{}));
//   ASSIGN_OR_RETURN(Graph segmenting, nets::WithLabelLoss(nets::UNet({}), NnUNetLoss()));
#pragma once

#include "absl/status/statusor.h"
#include "neap/core/graph/graph.h"

namespace neap::nets {

// The same layers, with this label smoothing in the losses (layers/softmax_cross_entropy.h), which
// keep all else, such as their weights. It is for networks that come with their loss;
// WithLabelLoss(net, SoftmaxCrossEntropy{.label_smoothing = 0.1F}) gives them another loss.
// Errors: INVALID_ARGUMENT naming the layer for a loss without labels to smooth, unless it is 0; a
// value outside [0, 1) is found by Resolve().
absl::StatusOr<Graph> WithLabelSmoothing(const Graph& net, float label_smoothing);

// The same layers, but for the losses, all of which become `loss`, a SoftmaxCrossEntropy or a
// DiceLoss, times the weights that they had. Errors: INVALID_ARGUMENT naming the layer for a loss
// without labels, and for another `loss`.
absl::StatusOr<Graph> WithLabelLoss(const Graph& net, const Layer& loss);

// The same layers, but for each LinearCrossEntropy: a Convolution with a kernel of 1 makes its
// logits, and has its name, and so its parameters in files; a SoftmaxCrossEntropy of them,
// "NAME.labels", is the loss. Such a network predicts, as its training without logits does not:
// it takes the same weights, and NAME may be made an output. Errors: INVALID_ARGUMENT naming the
// layer for a loss that is an output already.
absl::StatusOr<Graph> WithLogits(const Graph& net);

// The same layers, but for the losses and what they read besides the predictions: `loss`, which has
// the name of the main loss and reads the feed "targets", of the predictions' shape, times the
// weight that the main loss had. Auxiliary losses become `loss` times theirs. Errors: those of
// Resolve(net); INVALID_ARGUMENT for a network with no main loss or several, or naming the layer of
// an auxiliary loss, or of one whose weight is not 1, if `loss` is none of neap's for targets.
absl::StatusOr<Graph> WithTargetLoss(const Graph& net, const Layer& loss);

}  // namespace neap::nets
