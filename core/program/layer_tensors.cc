#include "neap/core/program/layer_tensors.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace neap {

std::vector<Slot> NativeSlots(const LayerSpec& spec, Phase phase) {
  for (const StepSpec& step : spec.steps) {
    if (step.phase == phase) return step.accumulates_natively;
  }
  return {};
}

bool AddsOtherGrad(const LayerTensors& tensors, const LayerSpec& spec) {
  if (!tensors.needs_grad || tensors.readers != 2) return false;
  const auto reads = [](const StepSpec& step) {
    return std::count(step.reads.begin(), step.reads.end(), Operand{Slot::kOutputGrad}) > 0;
  };
  const auto reader = std::find_if(spec.steps.begin(), spec.steps.end(), reads);
  return reader != spec.steps.end() && reader->sums_output_grads &&
         std::none_of(reader + 1, spec.steps.end(), reads);
}

absl::Status CheckPassedGradients(const ResolvedGraph& graph) {
  std::vector<size_t> last_reader(graph.layers.size());
  for (const ResolvedLayer& layer : graph.layers) {
    for (LayerId input : layer.inputs) last_reader[input.index()] = layer.id.index();
  }
  for (const ResolvedLayer& layer : graph.layers) {
    if (!layer.spec.passes_linear_grad.has_value()) continue;
    const LayerId input = layer.inputs[static_cast<size_t>(*layer.spec.passes_linear_grad)];
    const ResolvedLayer& last = graph.layers[last_reader[input.index()]];
    if (last.id == layer.id) continue;
    return absl::InvalidArgumentError(absl::StrCat("layer '", last.name, "' reads '",
                                                   graph.layers[input.index()].name, "' after '",
                                                   layer.name, "', which passes its gradient on"));
  }
  return absl::OkStatus();
}

std::optional<TensorId> Find(const std::vector<Use>& uses, Operand operand) {
  for (const Use& use : uses) {
    if (use.operand == operand) return use.tensor;
  }
  return std::nullopt;
}

}  // namespace neap
