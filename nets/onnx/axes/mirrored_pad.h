// Pads of images with copies of their own pixels.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "neap/nets/onnx/network_builder.h"
#include "neap/nets/onnx/node_reader.h"

namespace neap::nets {

// Adds the layers of a Pad whose `mode` is "reflect" or "edge": an axis that is padded is the
// channels, of which slices are joined. Errors: UNIMPLEMENTED for another mode, pads of N, negative
// pads, and more than 64 entries on a side.
absl::Status AddMirroredPad(NodeReader& node, NetworkBuilder& network, const std::string& mode,
                            ImageValue x);

}  // namespace neap::nets
