// A network with another batch, element type or layout.
//
// Layers do not know these, so the same layers are read by images and labels of other shapes.
//
//   GraphOptions options = net.options();
//   options.batch = 2 * options.batch;
//   const Graph twice = WithOptions(net, options);
#pragma once

#include "neap/core/graph/graph.h"

namespace neap {

// The layers of `net` with these options. Images and labels keep their heights and widths.
Graph WithOptions(const Graph& net, const GraphOptions& options);

}  // namespace neap
