#include "neap/core/graph/graph.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/utf8.h"
#include "neap/core/base/without_throwing.h"
#include "neap/core/graph/order.h"
#include "neap/core/graph/source.h"
#include "neap/core/step/check_spec.h"

namespace neap {
namespace {

absl::Status LayerError(const std::string& name, std::string_view what) {
  return absl::InvalidArgumentError(absl::StrFormat("layer '%s': %s", name, what));
}

using Index = absl::flat_hash_map<std::string, size_t>;

absl::StatusOr<Index> IndexNames(const Graph& graph) {
  Index index;
  for (size_t i = 0; i < graph.layers().size(); ++i) {
    const std::string& name = graph.layers()[i].name;
    if (name.empty())
      return absl::InvalidArgumentError(absl::StrCat("layer number ", i, " has no name"));
    if (!IsUtf8(name)) return LayerError(absl::CHexEscape(name), "its name is not UTF-8");
    if (!index.emplace(name, i).second) return LayerError(name, "two layers have this name");
  }
  return index;
}

absl::StatusOr<std::vector<std::vector<size_t>>> ConnectInputs(const Graph& graph,
                                                               const Index& index) {
  std::vector<std::vector<size_t>> inputs(graph.layers().size());
  std::vector<bool> read(graph.layers().size(), false);
  for (size_t i = 0; i < graph.layers().size(); ++i) {
    for (const std::string& input : graph.layers()[i].inputs) {
      const auto found = index.find(input);
      if (found == index.end()) {
        return LayerError(graph.layers()[i].name,
                          absl::StrCat("input '", input, "' is not a layer"));
      }
      inputs[i].push_back(found->second);
      read[found->second] = true;
    }
  }
  for (size_t i = 0; i < read.size(); ++i) {
    const GraphLayer& layer = graph.layers()[i];
    if (!read[i] && !IsLoss(layer.role)) {
      return LayerError(layer.name, "its output is unused (only a loss may end a network)");
    }
  }
  return inputs;
}

absl::Status CheckEnds(const Graph& graph) {
  int sources = 0;
  int losses = 0;
  for (const GraphLayer& layer : graph.layers()) {
    sources += layer.role == LayerRole::kImages ? 1 : 0;
    losses += layer.role == LayerRole::kLoss ? 1 : 0;
  }
  if (sources != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a network has one input, but this one has ", sources));
  }
  if (losses != 1)
    return absl::InvalidArgumentError(
        absl::StrCat("a network has one main loss, but this one has ", losses));
  return absl::OkStatus();
}

bool IsSource(LayerRole role) { return role == LayerRole::kImages || role == LayerRole::kLabels; }

// Whether a step of the phase has the operand among those that `list` selects.
bool HasOperand(const LayerSpec& spec, Phase phase, std::vector<Operand> StepSpec::*list,
                Operand operand) {
  return std::any_of(spec.steps.begin(), spec.steps.end(), [&](const StepSpec& step) {
    const std::vector<Operand>& operands = step.*list;
    return step.phase == phase &&
           std::find(operands.begin(), operands.end(), operand) != operands.end();
  });
}

// A step with an overflow can be skipped only if it is known what the layer accumulates.
absl::Status CheckStates(const GraphLayer& layer, const LayerSpec& spec) {
  for (size_t i = 0; i < spec.states.size(); ++i) {
    const Operand state = {Slot::kState, static_cast<int>(i)};
    const bool accumulates = HasOperand(spec, Phase::kForward, &StepSpec::accumulates, state);
    if (!accumulates || spec.states[i].accumulates) continue;
    return LayerError(layer.name,
                      absl::StrCat("forward accumulates into its state ", spec.states[i].name,
                                   ", whose StateSpec::accumulates is false"));
  }
  return absl::OkStatus();
}

absl::Status CheckScale(const GraphLayer& layer, const LayerSpec& spec) {
  if (HasOperand(spec, Phase::kBackwardData, &StepSpec::reads, {Slot::kLossScale}))
    return absl::OkStatus();
  return LayerError(layer.name,
                    "the loss does not multiply its gradient by the loss scale, which fp16 needs "
                    "(LayerContext::scales_loss); bf16 works without");
}

absl::Status CheckRole(const GraphLayer& layer, const LayerSpec& spec) {
  if (spec.steps.empty() && !IsSource(layer.role)) {
    return LayerError(layer.name, "has no forward step, and is neither the images nor the labels");
  }
  if (!IsLoss(layer.role)) return absl::OkStatus();
  const TensorSpec metrics = {.shape = {2}};
  if (spec.states.empty() || spec.states[0].tensor != metrics) {
    return LayerError(
        layer.name,
        "a loss keeps the mean loss and the number of correct predictions in its state 0, "
        "fp32 of shape 2");
  }
  const bool is_auxiliary = layer.role == LayerRole::kAuxiliaryLoss;
  if (spec.states[0].accumulates != is_auxiliary) {
    return LayerError(
        layer.name, is_auxiliary
                        ? "an auxiliary loss needs an auxiliary weight, with which it adds to the "
                          "main loss (StateSpec::accumulates of its state 0)"
                        : "the main loss has an auxiliary weight, or accumulates its state 0 "
                          "(StateSpec::accumulates), as only auxiliary losses do");
  }
  const bool has_others = spec.states.size() > 1 || !spec.params.empty();
  if (!is_auxiliary || !has_others) return absl::OkStatus();
  return LayerError(layer.name, "an auxiliary loss has no parameters or states of its own");
}

// Marks the layers on which only auxiliary losses depend.
void MarkTrainingOnly(ResolvedGraph& graph) {
  std::vector<bool> needed(graph.layers.size(), false);  // by others
  for (auto layer = graph.layers.rbegin(); layer != graph.layers.rend(); ++layer) {
    if (layer->role == LayerRole::kLoss) needed[layer->id.index()] = true;
    layer->training_only = !needed[layer->id.index()];
    if (layer->training_only) continue;
    for (LayerId input : layer->inputs) needed[input.index()] = true;
  }
}

// Losses run in any order, and all but the first one add to the metrics.
absl::Status CheckMetricsAdd(const ResolvedGraph& graph) {
  const auto is_auxiliary = [](const ResolvedLayer& layer) {
    return layer.role == LayerRole::kAuxiliaryLoss;
  };
  if (std::none_of(graph.layers.begin(), graph.layers.end(), is_auxiliary)) return absl::OkStatus();
  for (const ResolvedLayer& layer : graph.layers) {
    if (!IsLoss(layer.role)) continue;
    const std::vector<Slot>& native = layer.spec.steps.front().accumulates_natively;
    if (std::find(native.begin(), native.end(), Slot::kState) != native.end()) continue;
    return LayerError(layer.name,
                      "the loss cannot add to its metrics, which auxiliary losses need "
                      "(StepSpec::accumulates_natively)");
  }
  return absl::OkStatus();
}

absl::StatusOr<LayerSpec> SpecifyChecked(const GraphLayer& layer, const LayerContext& context) {
  absl::StatusOr<LayerSpec> spec =
      WithoutThrowing("Specify()", [&] { return layer.layer.Specify(context); });
  if (!spec.ok()) return LayerError(layer.name, std::string(spec.status().message()));
  const absl::flat_hash_set<std::string> distinct(layer.inputs.begin(), layer.inputs.end());
  if (distinct.size() < layer.inputs.size() && !spec->passes_gradient) {
    return LayerError(layer.name, "reads the same input twice");
  }
  RETURN_IF_ERROR(CheckRole(layer, *spec));
  if (const absl::Status checked = CheckSpec(*spec, context, IsLoss(layer.role)); !checked.ok())
    return LayerError(layer.name, std::string(checked.message()));
  RETURN_IF_ERROR(CheckStates(layer, *spec));
  if (context.scales_loss && IsLoss(layer.role)) RETURN_IF_ERROR(CheckScale(layer, *spec));
  return spec;
}

// Whether backward of the layer computes the gradient of the input, or passes on its own.
bool GivesGradient(const LayerSpec& spec, int input) {
  if (spec.passes_gradient || spec.passes_linear_grad == input) return true;
  return std::any_of(spec.steps.begin(), spec.steps.end(), [&](const StepSpec& step) {
    return std::count(step.writes.begin(), step.writes.end(), Operand{Slot::kInputGrad, input}) > 0;
  });
}

// Every layer that parameters precede can be trained through.
absl::Status CheckGradients(const ResolvedGraph& graph) {
  std::vector<bool> needed(graph.layers.size());
  for (const ResolvedLayer& layer : graph.layers) {
    needed[layer.id.index()] = !layer.spec.params.empty();
    for (size_t i = 0; i < layer.inputs.size(); ++i) {
      if (!needed[layer.inputs[i].index()]) continue;
      needed[layer.id.index()] = true;
      if (GivesGradient(layer.spec, static_cast<int>(i))) continue;
      return LayerError(layer.name,
                        absl::StrCat("none of its steps writes the gradient of its input ", i,
                                     ", which the parameters before it need"));
    }
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

Shape WithBatch(int64_t batch, const Shape& image) {
  absl::InlinedVector<int64_t, 4> dims = {batch};
  dims.insert(dims.end(), image.dims().begin(), image.dims().end());
  return Shape(std::move(dims));
}

}  // namespace

Role OutputRole(const ResolvedLayer& layer) {
  if (layer.role == LayerRole::kImages) return Role::kInput;
  if (layer.role == LayerRole::kLabels) return Role::kLabel;
  return Role::kActivation;
}

std::string Graph::Input(Shape chw) {
  const TensorSpec tensor = {WithBatch(options_.batch, chw), options_.dtype, options_.layout};
  return Add({"input", Images{.tensor = tensor}, {}, LayerRole::kImages});
}

std::string Graph::Add(std::string name, Layer layer, std::vector<std::string> inputs) {
  return Add({std::move(name), std::move(layer), std::move(inputs), LayerRole::kInner});
}

std::string Graph::Add(GraphLayer layer) {
  layers_.push_back(std::move(layer));
  return layers_.back().name;
}

std::string Graph::Loss(std::string predictions, Layer loss) {
  return PixelLoss(std::move(predictions), std::move(loss), 1, 1);
}

std::string Graph::PixelLoss(std::string predictions, Layer loss, int64_t height, int64_t width) {
  const TensorSpec labels = {LabelShape({options_.batch, 1, height, width}), DType::kInt32,
                             Layout::kNchw};
  Add({"labels", Labels{.tensor = labels}, {}, LayerRole::kLabels});
  return Add({"loss", std::move(loss), {std::move(predictions), "labels"}, LayerRole::kLoss});
}

std::string Graph::TargetLoss(std::string predictions, Layer loss, Shape chw) {
  const TensorSpec targets = {WithBatch(options_.batch, chw), DType::kFp32, options_.layout};
  Add({"targets", Targets{.tensor = targets}, {}, LayerRole::kLabels});
  return Add({"loss", std::move(loss), {std::move(predictions), "targets"}, LayerRole::kLoss});
}

std::string Graph::AuxiliaryLoss(const std::string& predictions, Layer loss) {
  std::string wanted = "labels";
  for (const GraphLayer& layer : layers_) {
    if (layer.role == LayerRole::kLabels) wanted = layer.name;
  }
  return Add({absl::StrCat(predictions, ".loss"),
              std::move(loss),
              {predictions, std::move(wanted)},
              LayerRole::kAuxiliaryLoss});
}

bool ScalesLoss(const GraphOptions& options) { return options.dtype == DType::kFp16; }

absl::StatusOr<ResolvedGraph> Resolve(const Graph& graph, Mode mode) {
  ASSIGN_OR_RETURN(const Index index, IndexNames(graph));
  ASSIGN_OR_RETURN(const std::vector<std::vector<size_t>> inputs, ConnectInputs(graph, index));
  RETURN_IF_ERROR(CheckEnds(graph));
  const std::vector<size_t> order = ExecutionOrder(inputs);
  std::vector<bool> ran(inputs.size(), false);
  for (size_t layer : order) ran[layer] = true;
  if (order.size() < inputs.size())
    return LayerError(OnCycle(graph, inputs, ran), "lies on a cycle");

  ResolvedGraph resolved = {.options = graph.options(), .layers = {}};
  std::vector<LayerId> position(inputs.size());
  for (size_t source : order) {
    const GraphLayer& layer = graph.layers()[source];
    const LayerId id(resolved.layers.size());
    position[source] = id;
    ResolvedLayer out = {.id = id,
                         .name = layer.name,
                         .layer = layer.layer,
                         .inputs = {},
                         .role = layer.role,
                         .spec = {}};
    LayerContext context = {.inputs = {},
                            .mode = mode,
                            .scales_loss = mode == Mode::kTraining && ScalesLoss(resolved.options)};
    for (size_t input : inputs[source]) {
      out.inputs.push_back(position[input]);
      context.inputs.push_back(resolved.layers[position[input].index()].spec.output);
    }
    ASSIGN_OR_RETURN(out.spec, SpecifyChecked(layer, context));
    resolved.layers.push_back(std::move(out));
  }
  RETURN_IF_ERROR(CheckMetricsAdd(resolved));
  if (mode == Mode::kTraining) RETURN_IF_ERROR(CheckGradients(resolved));
  MarkTrainingOnly(resolved);
  return resolved;
}

}  // namespace neap
