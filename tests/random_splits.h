// Random networks (tests/random_graph.h) with layers of several outputs.
//
//   const Graph graph = WithSplits(RandomGraph(seed), seed);
#pragma once

#include <cstdint>

#include "neap/core/graph/graph.h"

namespace neap::testing {

// `net` with the channels of some values split and put together again, perhaps in another order,
// before some of their readers. Of some splits, an output is not read, is read twice, is a result
// of the network, or is one on which no loss depends.
Graph WithSplits(const Graph& net, uint32_t seed);

}  // namespace neap::testing
