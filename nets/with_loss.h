// A network with another loss.
//
//   ASSIGN_OR_RETURN(Graph net, nets::Build("resnet50", {.batch = 128}));
//   ASSIGN_OR_RETURN(Graph smoothed, nets::WithLabelSmoothing(net, 0.1F));
//   ASSIGN_OR_RETURN(Graph multilabel, nets::WithTargetLoss(net, BinaryCrossEntropy{}));
#pragma once

#include "absl/status/statusor.h"
#include "neap/core/graph/graph.h"

namespace neap::nets {

// The same layers, with this label smoothing in the loss (layers/softmax_cross_entropy.h). Errors:
// INVALID_ARGUMENT naming the layer for a loss without labels to smooth, unless it is 0; a value
// outside [0, 1) is found by Resolve().
absl::StatusOr<Graph> WithLabelSmoothing(const Graph& net, float label_smoothing);

// The same layers, but for the loss and what it reads besides the predictions: `loss`, which reads
// targets as in Graph::TargetLoss(). Errors: those of Resolve(net).
absl::StatusOr<Graph> WithTargetLoss(const Graph& net, const Layer& loss);

}  // namespace neap::nets
