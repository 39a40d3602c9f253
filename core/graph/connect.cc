#include "neap/core/graph/connect.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/utf8.h"
#include "neap/core/graph/caller.h"
#include "neap/core/graph/order.h"

namespace neap {
namespace {

absl::StatusOr<LayerPositions> IndexNames(const Graph& graph) {
  LayerPositions index;
  for (size_t i = 0; i < graph.layers().size(); ++i) {
    const std::string& name = graph.layers()[i].name;
    if (name.empty())
      return absl::InvalidArgumentError(absl::StrCat("layer number ", i, " has no name"));
    if (!IsUtf8(name)) return LayerError(absl::CHexEscape(name), "its name is not UTF-8");
    if (!index.emplace(name, i).second) return LayerError(name, "two layers have this name");
  }
  return index;
}

// The output of this OutputName(); nullopt if no layer can have it.
std::optional<ConnectedOutput> FindOutput(const LayerPositions& index, const std::string& name) {
  if (const auto layer = index.find(name); layer != index.end()) return {{layer->second, 0}};
  const size_t colon = name.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  int output = 0;
  std::from_chars(name.data() + colon + 1, name.data() + name.size(), output);
  const std::string layer = name.substr(0, colon);
  const auto found = index.find(layer);
  // Text that is not a number, or has another spelling, gives another name.
  if (found == index.end() || output < 1 || OutputName(layer, output) != name) return std::nullopt;
  return {{found->second, output}};
}

absl::Status ConnectInputs(const Graph& graph, const LayerPositions& index,
                           Connections& connections) {
  for (size_t i = 0; i < graph.layers().size(); ++i) {
    for (const std::string& input : graph.layers()[i].inputs) {
      const std::optional<ConnectedOutput> found = FindOutput(index, input);
      if (!found.has_value()) {
        return LayerError(graph.layers()[i].name,
                          absl::StrCat("input '", input, "' is not a layer"));
      }
      connections.inputs[i].push_back(*found);
    }
  }
  return absl::OkStatus();
}

absl::Status ConnectResults(const Graph& graph, const LayerPositions& index,
                            Connections& connections) {
  absl::flat_hash_set<std::string> known;
  bool takes_gradients = false;
  for (const GraphOutput& output : graph.outputs()) {
    const std::string& name = output.name;
    const std::optional<ConnectedOutput> found = FindOutput(index, name);
    if (!found.has_value())
      return absl::InvalidArgumentError(absl::StrCat("output '", name, "' is not a layer"));
    if (!known.insert(name).second)
      return absl::InvalidArgumentError(absl::StrCat("output '", name, "' is named twice"));
    connections.results[found->layer].push_back({name, found->index});
    takes_gradients = takes_gradients || output.takes_gradient;
  }
  if (takes_gradients && index.contains(std::string(kCallerName))) {
    return LayerError(kCallerName,
                      "this name is that of the caller, who gives gradients of outputs");
  }
  return absl::OkStatus();
}

absl::Status CheckRead(const Graph& graph, const Connections& connections) {
  std::vector<bool> read(graph.layers().size(), false);
  for (const std::vector<ConnectedOutput>& inputs : connections.inputs) {
    for (const ConnectedOutput& input : inputs) read[input.layer] = true;
  }
  for (size_t i = 0; i < read.size(); ++i) {
    const GraphLayer& layer = graph.layers()[i];
    if (read[i] || !connections.results[i].empty() || IsLoss(layer.role)) continue;
    return LayerError(layer.name, "its output is unused (a loss or an output ends a network)");
  }
  return absl::OkStatus();
}

// The name of a layer on a cycle: going back along unmet inputs from a layer that could not run
// ends on a cycle.
std::string OnCycle(const Graph& graph, const std::vector<std::vector<size_t>>& inputs,
                    const std::vector<bool>& ran) {
  size_t at = 0;
  while (ran[at]) ++at;
  for (size_t hop = 0; hop < inputs.size(); ++hop) {
    for (size_t input : inputs[at]) {
      if (!ran[input]) {
        at = input;
        break;
      }
    }
  }
  return graph.layers()[at].name;
}

absl::Status Order(const Graph& graph, Connections& connections) {
  std::vector<std::vector<size_t>> inputs(connections.inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (const ConnectedOutput& input : connections.inputs[i]) inputs[i].push_back(input.layer);
  }
  connections.order = ExecutionOrder(inputs);
  std::vector<bool> ran(inputs.size(), false);
  for (size_t layer : connections.order) ran[layer] = true;
  if (connections.order.size() == inputs.size()) return absl::OkStatus();
  return LayerError(OnCycle(graph, inputs, ran), "lies on a cycle");
}

}  // namespace

absl::Status LayerError(std::string_view layer, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrFormat("layer '%s': %s", layer, what));
}

absl::StatusOr<Connections> Connect(const Graph& graph) {
  ASSIGN_OR_RETURN(LayerPositions index, IndexNames(graph));
  const size_t count = graph.layers().size();
  Connections connections = {.inputs = std::vector<std::vector<ConnectedOutput>>(count),
                             .results = std::vector<std::vector<LayerResult>>(count)};
  RETURN_IF_ERROR(ConnectInputs(graph, index, connections));
  RETURN_IF_ERROR(ConnectResults(graph, index, connections));
  RETURN_IF_ERROR(CheckRead(graph, connections));
  RETURN_IF_ERROR(Order(graph, connections));
  connections.positions = std::move(index);
  return connections;
}

absl::Status CheckHasOutput(std::string_view layer, const LayerSpec& spec, int index) {
  if (index < spec.output_count()) return absl::OkStatus();
  return LayerError(
      layer, absl::StrCat("its output '", OutputName(layer, index), "' is read, but it has ",
                          spec.output_count(), spec.output_count() == 1 ? " output" : " outputs"));
}

absl::Status CheckOutputNames(const LayerPositions& layers, std::string_view layer,
                              const LayerSpec& spec) {
  auto first = layers.end();
  for (int i = 1; i < spec.output_count(); ++i) {
    const auto found = layers.find(OutputName(layer, i));
    if (found == layers.end()) continue;
    if (first == layers.end() || found->second < first->second) first = found;
  }
  if (first == layers.end()) return absl::OkStatus();
  return LayerError(first->first,
                    absl::StrCat("an output of '", std::string(layer), "' has this name"));
}

}  // namespace neap
