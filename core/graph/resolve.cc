// Resolve(): orders the layers, infers shapes and checks everything.
#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/without_throwing.h"
#include "neap/core/graph/caller.h"
#include "neap/core/graph/connect.h"
#include "neap/core/graph/graph.h"
#include "neap/core/step/check_spec.h"

namespace neap {
namespace {

bool TakesGradients(const Graph& graph) {
  return std::any_of(graph.outputs().begin(), graph.outputs().end(),
                     [](const GraphOutput& output) { return output.takes_gradient; });
}

absl::Status CheckEnds(const Graph& graph, Mode mode) {
  const std::vector<GraphLayer>& layers = graph.layers();
  const auto has = [&](const auto& is_one) {
    return std::any_of(layers.begin(), layers.end(), is_one);
  };
  const auto is_feed = [](const GraphLayer& layer) { return layer.role == LayerRole::kFeed; };
  const auto is_loss = [](const GraphLayer& layer) { return layer.role == LayerRole::kLoss; };
  if (!has(is_feed)) return absl::InvalidArgumentError("the network has no input");
  if (has(is_loss)) return absl::OkStatus();
  if (mode == Mode::kTraining && !TakesGradients(graph)) {
    return absl::InvalidArgumentError(
        "the network has no loss, which training minimises, and no output whose gradient is given");
  }
  if (!graph.outputs().empty()) return absl::OkStatus();
  return absl::InvalidArgumentError("the network has neither a loss nor an output");
}

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

bool IsAuxiliary(LayerRole role) { return role == LayerRole::kAuxiliaryLoss; }

absl::Status CheckRole(const GraphLayer& layer, const LayerSpec& spec) {
  if (spec.steps.empty() && layer.role != LayerRole::kFeed)
    return LayerError(layer.name, "has no forward step, and is not a feed");
  if (!IsLoss(layer.role)) return absl::OkStatus();
  if (layer.inputs.empty()) return LayerError(layer.name, "a loss reads predictions");
  const TensorSpec metrics = {.shape = {2}};
  if (spec.states.empty() || spec.states[0].tensor != metrics) {
    return LayerError(
        layer.name,
        "a loss keeps the mean loss and the number of correct predictions in its state 0, "
        "fp32 of shape 2");
  }
  if (!spec.states[0].accumulates) return absl::OkStatus();
  return LayerError(layer.name,
                    "a loss writes its result anew in every iteration, but its state 0 accumulates "
                    "(StateSpec::accumulates)");
}

bool IsFloat(DType dtype) { return dtype != DType::kInt32 && dtype != DType::kUInt8; }

absl::Status CheckResults(const ResolvedLayer& layer) {
  for (const LayerResult& result : layer.results) {
    RETURN_IF_ERROR(CheckHasOutput(layer.name, layer.spec, result.output));
    if (layer.role == LayerRole::kFeed || IsAuxiliary(layer.role))
      return LayerError(layer.name, "neither a feed nor an auxiliary loss is an output");
    if (!IsFloat(layer.spec.OutputSpec(result.output).dtype))
      return LayerError(layer.name, "an output has floats, not integers");
  }
  return absl::OkStatus();
}

// Every feed holds the batch.
absl::Status CheckFeed(const GraphLayer& layer, const LayerSpec& spec, int64_t batch) {
  if (layer.role != LayerRole::kFeed) return absl::OkStatus();
  if (spec.output.dtype == DType::kUInt8)
    return LayerError(layer.name, "a feed has floats or int32, not uint8");
  if (spec.output.shape.rank() > 0 && spec.output.shape[0] == batch) return absl::OkStatus();
  return LayerError(layer.name, absl::StrCat("its shape is ", spec.output.shape.ToString(),
                                             ", but its first extent must be the batch, ", batch));
}

// Marks the layers on which only auxiliary losses depend.
void MarkTrainingOnly(ResolvedGraph& graph) {
  std::vector<bool> needed(graph.layers.size(), false);  // by others
  for (auto layer = graph.layers.rbegin(); layer != graph.layers.rend(); ++layer) {
    if (layer->role == LayerRole::kLoss || !layer->results.empty())
      needed[layer->id.index()] = true;
    layer->training_only = !needed[layer->id.index()];
    if (layer->training_only) continue;
    for (LayerOutput input : layer->inputs) needed[input.layer.index()] = true;
  }
}

// A parameter of the graph, before any is shared.
struct FoundParam {
  ResolvedLayer* layer = nullptr;
  ParamSpec* param = nullptr;
};

// By LAYER.param.
using FoundParams = absl::flat_hash_map<std::string, FoundParam>;
FoundParams ParamsOf(ResolvedGraph& graph) {
  FoundParams params;
  for (ResolvedLayer& layer : graph.layers) {
    for (ParamSpec& param : layer.spec.params)
      params[absl::StrCat(layer.name, ".", param.name)] = {&layer, &param};
  }
  return params;
}

std::vector<int64_t> WithoutOnes(const Shape& shape) {
  std::vector<int64_t> extents;
  std::copy_if(shape.dims().begin(), shape.dims().end(), std::back_inserter(extents),
               [](int64_t extent) { return extent != 1; });
  return extents;
}

absl::Status CheckForm(const StoredParam& stored, const Shape& own) {
  const Shape& shape = stored.form.shape;
  std::vector<int64_t> wanted = WithoutOnes(own);
  const bool is_matrix = wanted.size() <= 2;
  std::reverse(wanted.begin(), wanted.end());
  const bool fits = stored.form.transposed
                        ? is_matrix && WithoutOnes(shape) == wanted
                        : shape.rank() == 0 || shape.elements() == own.elements();
  if (fits) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "parameter '", stored.param, "' is ", own.ToString(), ", which files cannot have ",
      stored.form.transposed ? "transposed as " : "as ", shape.ToString()));
}

// Gives parameters the forms and the names that files have.
absl::Status StoreParams(const Graph& graph, FoundParams& params, const ResolvedGraph& resolved) {
  if (graph.stored().empty()) return absl::OkStatus();
  absl::flat_hash_set<std::string_view> names, shared;
  for (const ResolvedLayer& layer : resolved.layers) names.insert(layer.name);
  for (const auto& [name, found] : params) names.insert(name);
  for (const SharedParam& one : graph.shared()) shared.insert(one.param);
  for (const StoredParam& stored : graph.stored()) {
    const auto found = params.find(stored.param);
    if (found == params.end() || shared.contains(stored.param)) {
      return absl::InvalidArgumentError(
          absl::StrCat("parameter '", stored.param, "' cannot be stored otherwise: no layer ",
                       found == params.end() ? "has" : "owns", " it"));
    }
    auto& [layer, param] = found->second;
    RETURN_IF_ERROR(CheckForm(stored, param->tensor.shape));
    param->in_files = stored.form;
    const std::string& name = stored.form.name;
    if (name.empty()) continue;
    if (!names.insert(name).second) {
      return absl::InvalidArgumentError(absl::StrCat("parameter '", stored.param, "' cannot be '",
                                                     name, "', which something else is called"));
    }
    layer->shared.push_back({stored.param, name});
  }
  return absl::OkStatus();
}

// Of every shared parameter the owner, which may itself be shared.
using ParamOwners = absl::flat_hash_map<std::string_view, std::string_view>;

// The owner that is not shared; nullopt if the parameter or one of its owners owns itself. The
// parameters on the way get this owner, so that a chain of them is followed once.
std::optional<std::string_view> LastOwner(std::string_view param, ParamOwners& owner_of) {
  std::vector<std::string_view*> followed;
  for (auto owner = owner_of.find(param); owner != owner_of.end(); owner = owner_of.find(param)) {
    if (followed.size() == owner_of.size()) return std::nullopt;
    followed.push_back(&owner->second);
    param = owner->second;
  }
  for (std::string_view* const owner : followed) *owner = param;
  return param;
}

// Names the owner of every shared parameter, which may itself be shared, and lets it begin as that.
absl::Status ShareParams(const std::vector<SharedParam>& shared, const FoundParams& params) {
  ParamOwners owner_of;
  for (const auto& [param, owner] : shared) {
    for (const std::string* const name : {&param, &owner}) {
      if (!params.contains(*name)) {
        return absl::InvalidArgumentError(absl::StrCat("parameter '", param, "' cannot be '", owner,
                                                       "': no layer has '", *name, "'"));
      }
    }
    if (!owner_of.emplace(param, owner).second)
      return absl::InvalidArgumentError(absl::StrCat("parameter '", param, "' is shared twice"));
  }
  for (const SharedParam& one : shared) {
    const std::string& name = one.param;
    const std::optional<std::string_view> last = LastOwner(name, owner_of);
    if (!last.has_value())
      return absl::InvalidArgumentError(absl::StrCat("parameter '", name, "' owns itself"));
    const std::string owner(*last);
    const auto& [layer, param] = params.at(name);
    if (params.at(owner).layer == layer)
      return LayerError(layer->name, absl::StrCat("shares '", name, "' with itself"));
    const ParamSpec& owned = *params.at(owner).param;
    if (param->tensor != owned.tensor) {
      return LayerError(layer->name, absl::StrCat("its parameter '", param->name, "' is ",
                                                  param->tensor.ToString(), ", but '", owner,
                                                  "' is ", owned.tensor.ToString()));
    }
    param->init = owned.init;
    param->saved_shape = owned.saved_shape;
    param->in_files = owned.in_files;
    const bool is_renamed = !owned.in_files.name.empty();
    layer->shared.push_back({name, is_renamed ? owned.in_files.name : owner});
  }
  return absl::OkStatus();
}

// Marks the feeds that losses compare predictions with, and nothing else reads.
void MarkTargets(ResolvedGraph& graph) {
  for (ResolvedLayer& layer : graph.layers)
    layer.is_target = layer.role == LayerRole::kFeed && layer.results.empty();
  for (const ResolvedLayer& layer : graph.layers) {
    for (size_t i = 0; i < layer.inputs.size(); ++i) {
      const bool compares = IsLoss(layer.role) && i > 0;
      if (!compares) graph.layers[layer.inputs[i].layer.index()].is_target = false;
    }
  }
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

// Every layer that parameters precede can be trained through, if a loss follows it; and gradients
// that are given are of use.
absl::Status CheckGradients(const ResolvedGraph& graph) {
  const std::vector<bool> leads_to_loss = LeadsToLoss(graph);
  std::vector<bool> needed(graph.layers.size());
  for (const ResolvedLayer& layer : graph.layers) {
    if (!leads_to_loss[layer.id.index()]) continue;
    for (LayerOutput input : layer.inputs) {
      if (layer.role != LayerRole::kCaller || needed[input.layer.index()]) continue;
      return LayerError(graph.Producer(input).name,
                        "its gradient is to be given, but no parameter precedes it");
    }
    needed[layer.id.index()] = !layer.spec.params.empty();
    for (size_t i = 0; i < layer.inputs.size(); ++i) {
      if (!needed[layer.inputs[i].layer.index()]) continue;
      needed[layer.id.index()] = true;
      if (GivesGradient(layer.spec, static_cast<int>(i))) continue;
      return LayerError(layer.name,
                        absl::StrCat("none of its steps writes the gradient of its input ", i,
                                     ", which the parameters before it need"));
    }
  }
  return absl::OkStatus();
}

// Adds the layer that reads the outputs whose gradients are given (core/graph/caller.h).
absl::Status AddCaller(const std::vector<GraphOutput>& outputs, ResolvedGraph& graph) {
  ResolvedLayer caller = {.id = LayerId(graph.layers.size()),
                          .name = std::string(kCallerName),
                          .layer = Caller{},
                          .inputs = {},
                          .role = LayerRole::kCaller,
                          .spec = {}};
  absl::flat_hash_map<std::string, LayerOutput> found;
  for (const ResolvedLayer& layer : graph.layers) {
    for (const LayerResult& result : layer.results) found[result.name] = {layer.id, result.output};
  }
  for (const GraphOutput& output : outputs) {
    if (output.takes_gradient) caller.inputs.push_back(found.at(output.name));
  }
  ASSIGN_OR_RETURN(caller.spec, caller.layer.Specify({.inputs = graph.InputSpecs(caller)}));
  graph.layers.push_back(std::move(caller));
  return absl::OkStatus();
}

}  // namespace

std::vector<bool> LeadsToLoss(const ResolvedGraph& graph) {
  std::vector<bool> leads(graph.layers.size());
  for (auto layer = graph.layers.rbegin(); layer != graph.layers.rend(); ++layer) {
    if (IsLoss(layer->role) || layer->role == LayerRole::kCaller) leads[layer->id.index()] = true;
    if (!leads[layer->id.index()]) continue;
    for (LayerOutput input : layer->inputs) leads[input.layer.index()] = true;
  }
  return leads;
}

absl::StatusOr<ResolvedGraph> Resolve(const Graph& graph, Mode mode) {
  ASSIGN_OR_RETURN(const Connections connections, Connect(graph));
  RETURN_IF_ERROR(CheckEnds(graph, mode));
  ResolvedGraph resolved = {.options = graph.options(), .layers = {}};
  std::vector<LayerId> position(graph.layers().size());
  for (size_t source : connections.order) {
    const GraphLayer& layer = graph.layers()[source];
    const LayerId id(resolved.layers.size());
    position[source] = id;
    resolved.layers.push_back({.id = id, .name = layer.name, .layer = layer.layer});
    ResolvedLayer& out = resolved.layers.back();
    out.role = layer.role;
    out.results = connections.results[source];
    for (const ConnectedOutput& input : connections.inputs[source]) {
      const ResolvedLayer& producer = resolved.layers[position[input.layer].index()];
      RETURN_IF_ERROR(CheckHasOutput(producer.name, producer.spec, input.index));
      out.inputs.push_back({producer.id, input.index});
    }
    const LayerContext context = ContextIn(resolved.options, mode, resolved.InputSpecs(out));
    ASSIGN_OR_RETURN(out.spec, SpecifyChecked(layer, context));
    RETURN_IF_ERROR(CheckFeed(layer, out.spec, resolved.options.batch));
    RETURN_IF_ERROR(CheckOutputNames(connections.positions, layer.name, out.spec));
    RETURN_IF_ERROR(CheckResults(out));
  }
  if (mode == Mode::kTraining && TakesGradients(graph))
    RETURN_IF_ERROR(AddCaller(graph.outputs(), resolved));
  FoundParams params = ParamsOf(resolved);
  RETURN_IF_ERROR(StoreParams(graph, params, resolved));
  RETURN_IF_ERROR(ShareParams(graph.shared(), params));
  MarkTargets(resolved);
  if (mode == Mode::kTraining) RETURN_IF_ERROR(CheckGradients(resolved));
  MarkTrainingOnly(resolved);
  return resolved;
}

}  // namespace neap
