#include "neap/core/program/builder/program_ports.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace neap {
namespace {

// A port of the same name may follow from an earlier sub-batch.
void AddPart(const std::string& name, TensorId part,
             absl::flat_hash_map<std::string, size_t>& positions, std::vector<Port>& ports) {
  const auto [known, is_new] = positions.try_emplace(name, ports.size());
  if (is_new) ports.push_back({.name = name});
  ports[known->second].parts.push_back(part);
}

LossPort& LossOf(const ResolvedGraph& graph, const ResolvedLayer& layer, TensorId metrics,
                 PortPositions& known, Program& program) {
  const auto [position, is_new] = known.losses.try_emplace(layer.name, program.losses.size());
  if (!is_new) return program.losses[position->second];
  LossPort loss = {.name = layer.name,
                   .weight = layer.spec.loss_weight,
                   .is_auxiliary = layer.role == LayerRole::kAuxiliaryLoss,
                   .mean = layer.spec.loss_mean,
                   .metrics = metrics,
                   .logits = {.name = graph.NameOf(layer.inputs.front())},
                   .predictions = {.name = layer.name}};
  if (layer.inputs.size() > 1) {
    const ResolvedLayer& target = graph.Producer(layer.inputs[1]);
    if (target.role == LayerRole::kFeed) loss.target = target.name;
  }
  loss.classes = layer.spec.index_count.value_or(graph.SpecOf(layer.inputs.front()).shape.c());
  return program.losses.emplace_back(std::move(loss));
}

// What the layer numbers by the integers of feeds.
void LimitIndices(const ResolvedGraph& graph, const ResolvedLayer& layer,
                  const PortPositions& known, Program& program) {
  if (!layer.spec.index_count.has_value() || IsLoss(layer.role)) return;
  for (const LayerOutput input : layer.inputs) {
    const ResolvedLayer& feed = graph.Producer(input);
    if (feed.role != LayerRole::kFeed || feed.spec.output.dtype != DType::kInt32) continue;
    std::optional<int64_t>& count = program.feeds[known.feeds.at(feed.name)].index_count;
    count = std::min(count.value_or(*layer.spec.index_count), *layer.spec.index_count);
  }
}

}  // namespace

void AddToPorts(const ResolvedGraph& graph, const ResolvedLayer& layer,
                absl::Span<const LayerTensors> tensors, PortPositions& known, Program& program) {
  const LayerTensors& own = tensors[layer.id.index()];
  if (layer.role == LayerRole::kFeed)
    AddPart(layer.name, *own.outputs[0].value, known.feeds, program.feeds);
  for (const LayerResult& result : layer.results) {
    const OutputTensors& output = own.outputs[static_cast<size_t>(result.output)];
    AddPart(result.name, *output.value, known.outputs, program.outputs);
  }
  LimitIndices(graph, layer, known, program);
  if (!IsLoss(layer.role)) return;
  LossPort& loss = LossOf(graph, layer, own.persistent.states.front(), known, program);
  const LayerOutput logits = layer.inputs.front();
  loss.logits.parts.push_back(
      *tensors[logits.layer.index()].outputs[static_cast<size_t>(logits.index)].value);
  loss.predictions.parts.push_back(*own.outputs[0].value);
}

void HandOut(Step& pause, Program& program) {
  for (Port& output : program.outputs) {
    const TensorId tensor = output.parts.front();
    const auto read = std::find_if(pause.reads.begin(), pause.reads.end(),
                                   [&](const Use& use) { return use.tensor == tensor; });
    if (read == pause.reads.end()) {
      pause.reads.push_back({tensor, {Slot::kInput, static_cast<int>(pause.reads.size())}});
    } else {
      output.gradient = Find(pause.writes, {Slot::kInputGrad, read->operand.index});
    }
  }
}

absl::Status CheckSamePorts(const Program& part, const Program& whole) {
  for (const auto& [ports, known] :
       {std::pair(&part.feeds, &whole.feeds), std::pair(&part.outputs, &whole.outputs)}) {
    absl::flat_hash_map<std::string_view, const Port*> named;
    for (const Port& port : *known) named.emplace(port.name, &port);
    for (const Port& port : *ports) {
      const auto expected = named.find(port.name);
      if (expected == named.end()) {
        return absl::InvalidArgumentError(absl::StrCat(
            part.net.name, ": ", whole.net.name, " has no ", port.name, " that is given or read"));
      }
      const TensorSpec found = part.SpecOf(port), wanted = whole.SpecOf(*expected->second);
      // The batch and the sizes of images may be others.
      const bool is_same = found.dtype == wanted.dtype && found.layout == wanted.layout &&
                           found.shape.rank() == wanted.shape.rank();
      if (is_same) continue;
      return absl::InvalidArgumentError(absl::StrCat(part.net.name, ": its ", port.name, " is ",
                                                     found.ToString(), ", that of ", whole.net.name,
                                                     " ", wanted.ToString()));
    }
  }
  return absl::OkStatus();
}

}  // namespace neap
