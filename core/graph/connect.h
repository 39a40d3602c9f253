// Which outputs of which layers each layer of a graph reads, found by their names. Private to
// Resolve() (core/graph/graph.h).
//
//   ASSIGN_OR_RETURN(const Connections connections, Connect(graph));
//   const auto& read = connections.inputs[2];  // by graph.layers()[2]
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/graph/graph.h"
#include "neap/core/step/layer_spec.h"

namespace neap {

// An output of a layer, which is a position in Graph::layers(). Whether the layer has so many
// outputs is not known before it is specified (CheckHasOutput()).
struct ConnectedOutput {
  size_t layer = 0;
  int index = 0;
};

// The layers' positions in Graph::layers(), by their names.
using LayerPositions = absl::flat_hash_map<std::string, size_t>;

// By position in Graph::layers().
struct Connections {
  std::vector<std::vector<ConnectedOutput>> inputs;
  std::vector<std::vector<LayerResult>> results;
  std::vector<size_t> order;  // core/graph/order.h
  LayerPositions positions;
};

// INVALID_ARGUMENT, naming the layer.
absl::Status LayerError(std::string_view layer, std::string_view what);

// Errors: INVALID_ARGUMENT for a name that is empty, not UTF-8 or another layer's, an input or an
// output that is no layer's, an output that is named twice, a cycle, or a layer of which nothing is
// read and which is neither a loss nor an output.
absl::StatusOr<Connections> Connect(const Graph& graph);

// INVALID_ARGUMENT unless the layer has an output of this index.
absl::Status CheckHasOutput(std::string_view layer, const LayerSpec& spec, int index);

// INVALID_ARGUMENT if one of these layers has the name of an output of the layer, other than the
// first; it names the first of them by position.
absl::Status CheckOutputNames(const LayerPositions& layers, std::string_view layer,
                              const LayerSpec& spec);

}  // namespace neap
