// Layer norms that a graph computes step by step.
#pragma once

#include "absl/status/statusor.h"
#include "neap/nets/onnx/network_builder.h"
#include "neap/nets/onnx/node_reader.h"

namespace neap::nets {

// Whether the node, a ReduceMean of these images, computes the mean over the channels alone, and
// keeps their axis.
absl::StatusOr<bool> IsChannelMean(NodeReader& node, const ImageValue& x);

}  // namespace neap::nets
