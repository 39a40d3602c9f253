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
  Graph graph(options);
  for (GraphLayer layer : net.layers()) {
    if (const auto* const images = layer.layer.As<Images>()) {
      const Shape shape = WithBatch(images->tensor.shape, options.batch);
      layer.layer = Images{.tensor = {shape, options.dtype, options.layout}};
    } else if (const auto* const labels = layer.layer.As<Labels>()) {
      TensorSpec tensor = labels->tensor;
      tensor.shape = WithBatch(tensor.shape, options.batch);
      layer.layer = Labels{.tensor = std::move(tensor)};
    } else if (const auto* const targets = layer.layer.As<Targets>()) {
      const Shape shape = WithBatch(targets->tensor.shape, options.batch);
      layer.layer = Targets{.tensor = {shape, DType::kFp32, options.layout}};
    }
    graph.Add(std::move(layer));
  }
  return graph;
}

}  // namespace neap
