#include "neap/core/graph/with_options.h"

#include <utility>

#include "neap/core/graph/source.h"

namespace neap {
namespace {

Shape WithBatch(const Shape& shape, int64_t batch) {
  if (shape.rank() == 0) return shape;
  absl::InlinedVector<int64_t, 4> dims = shape.dims();
  dims[0] = batch;
  return Shape(std::move(dims));
}

}  // namespace

Graph WithOptions(const Graph& net, const GraphOptions& options) {
  Graph graph(options, net);
  for (GraphLayer layer : net.layers()) {
    if (const auto* const given = layer.layer.As<Feed>()) {
      Feed feed = *given;
      feed.tensor.shape = WithBatch(feed.tensor.shape, options.batch);
      if (feed.has_network_type) feed.tensor.dtype = options.dtype;
      if (feed.is_image()) feed.tensor.layout = options.layout;
      layer.layer = std::move(feed);
    }
    graph.Add(std::move(layer));
  }
  return graph;
}

}  // namespace neap
