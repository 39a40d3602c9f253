// Norms that a graph computes step by step.
#pragma once

#include "absl/status/statusor.h"
#include "neap/nets/onnx/network_builder.h"
#include "neap/nets/onnx/node_reader.h"

namespace neap::nets {

// Whether the node, a ReduceMean of these images, computes the mean over the channels alone, and
// keeps their axis.
absl::StatusOr<bool> IsChannelMean(NodeReader& node, const ImageValue& x);

// Whether the node, a ReduceMean, computes the mean of the squares along one axis that it keeps.
absl::StatusOr<bool> IsMeanOfSquares(NodeReader& node);
// Adds the layers of the images by the root of the mean, or of the sum, of their squares.
absl::Status AddNormOfSquares(NodeReader& node, NetworkBuilder& network, const NormPart& part);

}  // namespace neap::nets
