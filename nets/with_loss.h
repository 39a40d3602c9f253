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

// The same layers, with this label smoothing in the losses (layers/softmax_cross_entropy.h).
// Errors: INVALID_ARGUMENT naming the layer for a loss without labels to smooth, unless it is 0; a
// value outside [0, 1) is found by Resolve().
absl::StatusOr<Graph> WithLabelSmoothing(const Graph& net, float label_smoothing);

// The same layers, but for the losses, all of which become `loss`, a SoftmaxCrossEntropy or a
// DiceLoss, times the weights that they had. Errors: INVALID_ARGUMENT naming the layer for a loss
// without labels, and for another `loss`.
absl::StatusOr<Graph> WithLabelLoss(const Graph& net, const Layer& loss);

// The same layers, but for the losses and what they read besides the predictions: `loss`, which has
// the name of the main loss and reads the feed "targets", of the predictions' shape. Auxiliary
// losses become losses of its type with the weights that they had. Errors: those of Resolve(net);
// INVALID_ARGUMENT for a network with no main loss or several, or naming the layer of an auxiliary
// loss if `loss` is none of neap's.
absl::StatusOr<Graph> WithTargetLoss(const Graph& net, const Layer& loss);

}  // namespace neap::nets
