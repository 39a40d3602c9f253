#include "neap/core/program/layer_tensors.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"

namespace neap {

std::vector<Slot> NativeSlots(const LayerSpec& spec, Phase phase) {
  for (const StepSpec& step : spec.steps) {
    if (step.phase == phase) return step.accumulates_natively;
  }
  return {};
}

bool AddsOtherGrad(const OutputTensors& output, const LayerSpec& spec) {
  if (output.readers != 2) return false;
  const auto reads = [](const StepSpec& step) {
    return std::count(step.reads.begin(), step.reads.end(), Operand{Slot::kOutputGrad}) > 0;
  };
  const auto reader = std::find_if(spec.steps.begin(), spec.steps.end(), reads);
  return reader != spec.steps.end() && reader->sums_output_grads &&
         std::none_of(reader + 1, spec.steps.end(), reads);
}

absl::Status CheckPassedGradients(const ResolvedGraph& graph) {
  absl::flat_hash_map<std::pair<LayerId, int>, size_t> last_reader;  // by layer and output
  for (const ResolvedLayer& layer : graph.layers) {
    for (LayerOutput input : layer.inputs)
      last_reader[{input.layer, input.index}] = layer.id.index();
  }
  for (const ResolvedLayer& layer : graph.layers) {
    if (!layer.spec.passes_linear_grad.has_value()) continue;
    const LayerOutput input = layer.inputs[static_cast<size_t>(*layer.spec.passes_linear_grad)];
    const ResolvedLayer& last = graph.layers[last_reader.at({input.layer, input.index})];
    if (last.id == layer.id) continue;
    return absl::InvalidArgumentError(absl::StrCat("layer '", last.name, "' reads '",
                                                   graph.NameOf(input), "' after '", layer.name,
                                                   "', which passes its gradient on"));
  }
  return absl::OkStatus();
}

bool ReadsParamGrad(const LayerSpec& spec) {
  return std::any_of(spec.steps.begin(), spec.steps.end(), [](const StepSpec& step) {
    return std::any_of(step.reads.begin(), step.reads.end(),
                       [](Operand operand) { return operand.slot == Slot::kParamGrad; });
  });
}

void KeepInits(const ResolvedLayer& from, ResolvedLayer& to) {
  for (ParamSpec& param : to.spec.params) {
    for (const ParamSpec& own : from.spec.params) {
      if (ParamName(from, own) != ParamName(to, param)) continue;
      param.init = own.init;
      param.saved_shape = own.saved_shape;
      param.in_files = own.in_files;
    }
  }
}

absl::flat_hash_set<std::string> SharedParamNames(const ResolvedGraph& graph) {
  absl::flat_hash_set<std::string> known, shared;
  for (const ResolvedLayer& layer : graph.layers) {
    absl::flat_hash_set<std::string> own;
    for (const ParamSpec& param : layer.spec.params) own.insert(ParamName(layer, param));
    for (const std::string& name : own) {
      if (!known.insert(name).second) shared.insert(name);
    }
  }
  return shared;
}

absl::Status CheckSharedGradients(const ResolvedGraph& graph) {
  const absl::flat_hash_set<std::string> shared = SharedParamNames(graph);
  for (const ResolvedLayer& layer : graph.layers) {
    if (shared.empty() || !ReadsParamGrad(layer.spec)) continue;
    for (const ParamSpec& param : layer.spec.params) {
      const std::string name = ParamName(layer, param);
      if (!shared.contains(name)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("layer '", layer.name, "' reads the gradient of its parameter '", name,
                       "', which it cannot share with other layers"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckAccumulation(const ResolvedGraph& graph, const ProgramOptions& options) {
  if (options.accumulation.batches < 1)
    return absl::InvalidArgumentError(
        absl::StrCat(graph.options.name, ": gradients are summed over at least 1 batch, not ",
                     options.accumulation.batches));
  if (!options.accumulation.is_on()) return absl::OkStatus();
  if (options.share.ranks > 1)
    return absl::InvalidArgumentError(absl::StrCat(
        graph.options.name, ": gradients cannot be summed over batches among several ranks"));
  for (const ResolvedLayer& layer : graph.layers) {
    if (!ReadsParamGrad(layer.spec)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("layer '", layer.name,
                     "': it reads gradients of its parameters, which are sums over batches"));
  }
  return absl::OkStatus();
}

std::optional<TensorId> Find(const std::vector<Use>& uses, Operand operand) {
  for (const Use& use : uses) {
    if (use.operand == operand) return use.tensor;
  }
  return std::nullopt;
}

void AddInPlace(Operand written, Operand read, Step& step) {
  const std::optional<TensorId> to = Find(step.writes, written);
  const std::optional<TensorId> from = Find(step.reads, read);
  const bool has_addend = Find(step.reads, {Slot::kAddend, written.index}).has_value();
  if (to.has_value() && from.has_value() && !has_addend) step.in_place.emplace_back(*to, *from);
}

}  // namespace neap
