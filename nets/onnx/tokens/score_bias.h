// What is added to the scores of an attention, or put in their place: constants, masks, and layers'
// outputs. *Errors*: those of NodeReader.
#pragma once

#include "absl/status/status.h"
#include "neap/nets/onnx/network_builder.h"
#include "neap/nets/onnx/node_reader.h"

namespace neap::nets {

// Adds input `other` of the node: numbers, the mask of an Attention, which is true where a query
// attends to a key, or a layer's output. Errors: UNIMPLEMENTED for numbers that differ between the
// images.
absl::Status AddToScores(NodeReader& node, NetworkBuilder& network, int other, AttentionPart& part);

// A Where: the scores where the mask is true, or where it is false, and else a number that hides
// their keys. Errors: UNIMPLEMENTED for other numbers.
absl::Status HideScores(NodeReader& node, NetworkBuilder& network, AttentionPart& part);

}  // namespace neap::nets
