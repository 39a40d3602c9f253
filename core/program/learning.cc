#include "neap/core/program/learning.h"

#include <vector>

#include "absl/container/flat_hash_set.h"

namespace neap {

void MarkLearning(const ResolvedGraph& graph, absl::Span<LayerTensors> tensors) {
  const std::vector<bool> leads_to_loss = LeadsToLoss(graph);
  absl::flat_hash_set<TensorId> updated;
  for (const ResolvedLayer& layer : graph.layers) {
    LayerTensors& own = tensors[layer.id.index()];
    bool follows_parameters = !layer.spec.params.empty();
    for (LayerOutput input : layer.inputs)
      follows_parameters = follows_parameters || tensors[input.layer.index()].needs_grad;
    own.needs_grad = follows_parameters && leads_to_loss[layer.id.index()];
    for (PersistentParam& param : own.persistent.params)
      param.is_borrowed = !own.needs_grad || !updated.insert(param.id).second;
  }
}

}  // namespace neap
