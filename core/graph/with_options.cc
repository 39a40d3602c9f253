#include "neap/core/graph/with_options.h"

#include <utility>

#include "neap/core/graph/source.h"

namespace neap {
Graph WithOptions(const Graph& net, const GraphOptions& options) {
  Graph graph(options, net);
  for (GraphLayer layer : net.layers()) {
    if (const auto* const given = layer.layer.As<Feed>()) {
      Feed feed = *given;
      feed.tensor = WithFirstExtent(feed.tensor, options.batch);
      if (feed.has_network_type) feed.tensor.dtype = options.dtype;
      if (feed.has_channels()) feed.tensor.layout = options.layout;
      layer.layer = std::move(feed);
    }
    graph.Add(std::move(layer));
  }
  return graph;
}

}  // namespace neap
