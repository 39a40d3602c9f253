// The same network for inputs of another size.
//
// A network without fully connected layers, or with them behind global pooling, has the same
// parameters for every size of its images. Training can then change the size from step to step
// (Graph::Sizes()).
//
//   ASSIGN_OR_RETURN(const Graph small, WithSize(net, {.extents = {160, 160}, .batch = 64}));
#pragma once

#include "absl/status/statusor.h"
#include "neap/core/graph/graph.h"

namespace neap {

// `net` with this size and without others. Errors: INVALID_ARGUMENT for a network without feeds,
// for another number of extents than its first feed has behind its channels, for extents that are
// not positive, and for a negative batch.
absl::StatusOr<Graph> WithSize(const Graph& net, const GraphSize& size);

}  // namespace neap
