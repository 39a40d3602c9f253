// Random networks (tests/random_graph.h) with layers that give images other extents.
//
//   const Graph graph = WithResizes(RandomGraph(seed), seed);
#pragma once

#include <cstdint>

#include "neap/core/graph/graph.h"

namespace neap::testing {

// `net` in which some values are given another size, and their own again, before some of their
// readers: by interpolation, adaptive pooling or shuffles of pixels.
Graph WithResizes(const Graph& net, uint32_t seed);

}  // namespace neap::testing
