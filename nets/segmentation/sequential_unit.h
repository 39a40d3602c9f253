// A convolution, a batch norm and a ReLU, with the names that the parts of an nn.Sequential have:
// PREFIX.0, PREFIX.1 and PREFIX.2.
//
//   x = AddSequentialUnit(net, "decoder.block1.", 0, {.out_channels = 48, .bias = false}, x);
//   x = AddSeparableUnit(net, "decoder.block2.", 0, 304, {.out_channels = 256, .kernel = 3}, x);
#pragma once

#include <cstdint>
#include <string>

#include "neap/core/graph/graph.h"
#include "neap/layers/convolution.h"

namespace neap::nets {

// Their numbers begin with `first`: PREFIXfirst. Returns the name of the ReLU.
std::string AddSequentialUnit(Graph& net, const std::string& prefix, int first,
                              const Convolution& convolution, std::string x);

// The same with a separable convolution: one of each of the input's channels, PREFIXfirst.0, and
// one of pixels, PREFIXfirst.1, both without bias.
std::string AddSeparableUnit(Graph& net, const std::string& prefix, int first, int64_t in_channels,
                             const Convolution& convolution, std::string x);

}  // namespace neap::nets
