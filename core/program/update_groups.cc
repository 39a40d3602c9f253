#include "neap/core/program/update_groups.h"

#include <algorithm>

#include "neap/core/step/specify.h"

namespace neap {
namespace {

struct Size {
  int64_t bytes = 0;  // of the gradients
  size_t tensors = 0;
};

Size SizeOf(const LayerSpec& spec) {
  Size size = {.tensors = std::max(spec.params.size(), spec.states.size())};
  for (const ParamSpec& param : spec.params)
    size.bytes += InFullPrecision(param.tensor).size_bytes();
  return size;
}

int64_t OutputBytes(const LayerSpec& spec) {
  int64_t bytes = 0;
  for (int i = 0; i < spec.output_count(); ++i) bytes += spec.OutputSpec(i).size_bytes();
  return bytes;
}

}  // namespace

std::vector<LayerId> LearningLayers(const ResolvedGraph& graph) {
  std::vector<LayerId> learning;
  for (size_t i = graph.layers.size(); i-- > 0;) {
    const ResolvedLayer& layer = graph.layers[i];
    const bool learns = !layer.inputs.empty() && !layer.spec.passes_gradient;
    if (learns && !layer.spec.params.empty()) learning.push_back(layer.id);
  }
  return learning;
}

std::vector<std::vector<LayerId>> UpdateGroups(const ResolvedGraph& graph,
                                               const std::vector<LayerId>& layers,
                                               const UpdateGroupRules& rules) {
  std::vector<std::vector<LayerId>> groups;
  Size last;  // of the last group
  for (LayerId id : layers) {
    const LayerSpec& spec = graph.layers[id.index()].spec;
    const Size size = SizeOf(spec);
    const bool joins = !groups.empty() && last.bytes < rules.bytes &&
                       last.tensors + size.tensors <= kMaxTensorsOfGroup &&
                       OutputBytes(spec) <= rules.largest_output_bytes;
    if (!joins) {
      groups.emplace_back();
      last = {};
    }
    groups.back().push_back(id);
    last.bytes += size.bytes;
    last.tensors += size.tensors;
  }
  return groups;
}

}  // namespace neap
