// BuildProgram with exact accounting: lowers a resolved graph to steps.
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/stable_hash.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/program/paper_program.h"
#include "neap/core/program/program.h"

namespace neap {
namespace {

class ProgramBuilder {
 public:
  ProgramBuilder(ResolvedGraph graph, const ProgramOptions& options)
      : graph_(std::move(graph)), layers_(graph_.layers.size()) {
    program_.net = graph_.options;
    program_.options = options;
  }

  // Takes over the persistent tensors of `whole`; those of the layers must then be among them.
  void Adopt(const Program& whole) {
    for (const Tensor& tensor : whole.tensors) {
      if (!IsPersistent(tensor.role)) continue;
      adopted_.emplace(tensor.name, tensor.id);
      program_.tensors.push_back(tensor);
    }
  }

  // The first persistent tensor that Build() did not find among those adopted.
  const std::optional<std::string>& unknown_tensor() const { return unknown_tensor_; }

  Program Build() {
    for (const ResolvedLayer& layer : graph_.layers) {
      program_.layers.push_back(
          {layer.name, layer.layer, StableHash(layer.name), layer.spec.traits});
    }
    MakePersistentTensors();
    iteration_ = NewTensor("iteration", Role::kInput, {Shape{4}, DType::kInt32, Layout::kNchw});
    MarkGradientsNeeded();
    program_.iteration = iteration_;
    for (const ResolvedLayer& layer : graph_.layers) Forward(layer);
    if (program_.options.mode == Mode::kTraining) {
      for (size_t i = graph_.layers.size(); i-- > 0;) Backward(graph_.layers[i]);
    }
    return std::move(program_);
  }

 private:
  // The tensors of one layer that have been created so far.
  struct LayerTensors {
    std::optional<TensorId> output;
    std::optional<TensorId> output_grad;
    bool output_grad_shared = false;  // also another layer's gradient: must not be accumulated into
    bool needs_grad = false;
    std::vector<TensorId> params, param_grads, states, optimizer, saved;
  };

  TensorId NewTensor(std::string name, Role role, TensorSpec spec) {
    const TensorId id(program_.tensors.size());
    program_.tensors.push_back(
        {.id = id, .name = std::move(name), .role = role, .spec = std::move(spec)});
    return id;
  }
  TensorId Persistent(Tensor tensor) {
    const auto adopted = adopted_.find(tensor.name);
    const bool known = adopted != adopted_.end();
    tensor.id = known ? adopted->second : TensorId(program_.tensors.size());
    const bool matches = known && program_.tensor(tensor.id) == tensor;
    if (!adopted_.empty() && !matches && !unknown_tensor_.has_value()) {
      unknown_tensor_ = absl::StrCat(tensor.name, " (", tensor.spec.ToString(), ")");
    }
    if (!known) program_.tensors.push_back(tensor);
    return tensor.id;
  }

  void MakePersistentTensors() {
    for (const ResolvedLayer& layer : graph_.layers) {
      LayerTensors& tensors = layers_[layer.id.index()];
      for (const ParamSpec& param : layer.spec.params) {
        const std::string name = absl::StrCat(layer.name, ".", param.name);
        tensors.params.push_back(Persistent({.name = name,
                                             .role = Role::kParam,
                                             .spec = param.tensor,
                                             .init = param.init,
                                             .saved_shape = param.saved_shape}));
        if (program_.options.sgd.momentum == 0) continue;
        tensors.optimizer.push_back(Persistent({.name = absl::StrCat(name, ".momentum"),
                                                .role = Role::kOptimizer,
                                                .spec = param.tensor,
                                                .saved_shape = param.saved_shape}));
      }
      for (const StateSpec& state : layer.spec.states) {
        tensors.states.push_back(Persistent({.name = absl::StrCat(layer.name, ".", state.name),
                                             .role = Role::kState,
                                             .spec = state.tensor,
                                             .init = state.init,
                                             .in_checkpoint = state.in_checkpoint}));
      }
    }
  }

  void MarkGradientsNeeded() {
    for (const ResolvedLayer& layer : graph_.layers) {
      bool needed = !layer.spec.params.empty();
      for (LayerId input : layer.inputs) needed = needed || layers_[input.index()].needs_grad;
      layers_[layer.id.index()].needs_grad = needed;
    }
  }

  void Forward(const ResolvedLayer& layer) {
    LayerTensors& tensors = layers_[layer.id.index()];
    tensors.output = NewTensor(layer.name, OutputRole(layer), layer.spec.output);
    if (layer.role == LayerRole::kImages) program_.images = *tensors.output;
    if (layer.role == LayerRole::kLabels) program_.labels = *tensors.output;
    if (layer.role == LayerRole::kLoss) {
      program_.metrics = tensors.states[0];
      program_.predictions = *tensors.output;
    }
    for (const SavedSpec& saved : layer.spec.saved) {
      tensors.saved.push_back(
          NewTensor(absl::StrCat(layer.name, ".", saved.name), Role::kSaved, saved.tensor));
    }
    for (const StepSpec& spec : layer.spec.steps) {
      if (spec.phase == Phase::kForward) AddStep(layer, spec);
    }
  }

  void Backward(const ResolvedLayer& layer) {
    LayerTensors& tensors = layers_[layer.id.index()];
    if (layer.inputs.empty() || !tensors.needs_grad) return;
    if (layer.spec.passes_gradient) {
      PassGradient(layer);
      return;
    }
    for (const ParamSpec& param : layer.spec.params) {
      tensors.param_grads.push_back(NewTensor(absl::StrCat(layer.name, ".", param.name, ".grad"),
                                              Role::kParamGrad, param.tensor));
    }
    for (const StepSpec& spec : layer.spec.steps) {
      if (spec.phase != Phase::kForward) AddStep(layer, spec);
    }
    if (!tensors.params.empty()) AddUpdate(layer);
  }

  // A sum's gradient passes to its inputs unchanged.
  void PassGradient(const ResolvedLayer& layer) {
    const LayerTensors tensors = layers_[layer.id.index()];
    for (size_t i = 0; i < layer.inputs.size(); ++i) {
      LayerTensors& input = layers_[layer.inputs[i].index()];
      if (!input.needs_grad) continue;
      if (!input.output_grad.has_value()) {
        input.output_grad = tensors.output_grad;
        input.output_grad_shared = true;
        continue;
      }
      AddStep(layer, {.phase = Phase::kBackwardData,
                      .reads = {{Slot::kOutputGrad}},
                      .writes = {{Slot::kInputGrad, static_cast<int>(i)}},
                      .accumulates_natively = NativeSlots(layer.spec, Phase::kBackwardData)});
    }
  }

  static std::vector<Slot> NativeSlots(const LayerSpec& spec, Phase phase) {
    for (const StepSpec& step : spec.steps) {
      if (step.phase == phase) return step.accumulates_natively;
    }
    return {};
  }

  void AddStep(const ResolvedLayer& layer, const StepSpec& spec) {
    if (spec.phase == Phase::kBackwardData && !WantsAnyWrite(layer, spec)) return;
    Step step = {.id = StepId(program_.steps.size()), .layer = layer.id, .phase = spec.phase};
    step.accumulates_natively = spec.accumulates_natively;
    step.flops = spec.flops;
    for (Operand operand : spec.reads) step.reads.push_back({TensorOf(layer, operand), operand});
    for (Operand operand : spec.rerun_reads)
      step.rerun_reads.push_back({TensorOf(layer, operand), operand});
    for (Operand operand : spec.accumulates)
      step.accumulates.push_back({TensorOf(layer, operand), operand});
    for (Operand operand : spec.writes) {
      if (operand.slot == Slot::kInputGrad) {
        AddGradient(layer, operand.index, spec, step);
      } else {
        step.writes.push_back({TensorOf(layer, operand), operand});
      }
    }
    for (const auto& [written, read] : spec.in_place) AddInPlace(written, read, step);
    program_.steps.push_back(std::move(step));
  }

  bool WantsAnyWrite(const ResolvedLayer& layer, const StepSpec& spec) const {
    for (Operand operand : spec.writes) {
      if (operand.slot != Slot::kInputGrad) return true;
      if (layers_[layer.inputs[static_cast<size_t>(operand.index)].index()].needs_grad) return true;
    }
    return false;
  }

  // The step contributes to the gradient of input `index`: as its first writer, by adding a shared
  // gradient, or by accumulating into a sum.
  void AddGradient(const ResolvedLayer& layer, int index, const StepSpec& spec, Step& step) {
    const LayerId source = layer.inputs[static_cast<size_t>(index)];
    LayerTensors& input = layers_[source.index()];
    const bool has_other_writes = spec.writes.size() > 1;
    if (!input.needs_grad && !has_other_writes) return;
    const Operand operand = {Slot::kInputGrad, index};
    if (input.output_grad.has_value() && !input.output_grad_shared) {
      step.accumulates.push_back({*input.output_grad, operand});
      return;
    }
    if (input.output_grad.has_value()) {
      step.reads.push_back({*input.output_grad, {Slot::kAddend, index}});
    }
    const ResolvedLayer& producer = graph_.layers[source.index()];
    input.output_grad =
        NewTensor(absl::StrCat(producer.name, ".grad"), Role::kGradient, producer.spec.output);
    input.output_grad_shared = false;
    step.writes.push_back({*input.output_grad, operand});
  }

  static std::optional<TensorId> Find(const std::vector<Use>& uses, Operand operand) {
    for (const Use& use : uses) {
      if (use.operand == operand) return use.tensor;
    }
    return std::nullopt;
  }
  void AddInPlace(Operand written, Operand read, Step& step) const {
    const std::optional<TensorId> to = Find(step.writes, written);
    const std::optional<TensorId> from = Find(step.reads, read);
    const bool has_addend = Find(step.reads, {Slot::kAddend, written.index}).has_value();
    if (to.has_value() && from.has_value() && !has_addend) step.in_place.emplace_back(*to, *from);
  }

  void AddUpdate(const ResolvedLayer& layer) {
    const LayerTensors& tensors = layers_[layer.id.index()];
    Step step = {.id = StepId(program_.steps.size()), .layer = layer.id, .phase = Phase::kUpdate};
    step.reads.push_back({iteration_, {Slot::kIteration}});
    for (size_t i = 0; i < tensors.params.size(); ++i) {
      const int index = static_cast<int>(i);
      step.reads.push_back({tensors.param_grads[i], {Slot::kParamGrad, index}});
      step.accumulates.push_back({tensors.params[i], {Slot::kParam, index}});
      if (!tensors.optimizer.empty()) {
        step.accumulates.push_back({tensors.optimizer[i], {Slot::kOptimizer, index}});
      }
    }
    program_.steps.push_back(std::move(step));
  }

  TensorId TensorOf(const ResolvedLayer& layer, Operand operand) const {
    const LayerTensors& own = layers_[layer.id.index()];
    const size_t i = static_cast<size_t>(operand.index);
    switch (operand.slot) {
      case Slot::kInput:
        return *layers_[layer.inputs[i].index()].output;
      case Slot::kOutput:
        return *own.output;
      case Slot::kOutputGrad:
        return *own.output_grad;
      case Slot::kInputGrad:
      case Slot::kAddend:
        return *layers_[layer.inputs[i].index()].output_grad;
      case Slot::kParam:
        return own.params[i];
      case Slot::kParamGrad:
        return own.param_grads[i];
      case Slot::kSaved:
        return own.saved[i];
      case Slot::kState:
        return own.states[i];
      case Slot::kOptimizer:
        return own.optimizer[i];
      case Slot::kIteration:
        return iteration_;
    }
    return iteration_;
  }

  ResolvedGraph graph_;
  Program program_;
  std::vector<LayerTensors> layers_;  // by LayerId
  TensorId iteration_;
  absl::flat_hash_map<std::string, TensorId> adopted_;
  std::optional<std::string> unknown_tensor_;
};

absl::Status CheckSameBatch(const Program& part, const Program& whole) {
  for (const auto& [of_part, of_whole] :
       {std::pair(part.images, whole.images), std::pair(part.labels, whole.labels),
        std::pair(part.metrics, whole.metrics)}) {
    const Tensor& expected = whole.tensor(of_whole);
    const TensorSpec& found = part.tensor(of_part).spec;
    if (found == expected.spec) continue;
    return absl::InvalidArgumentError(absl::StrCat(part.net.name, ": its ", expected.name, " is ",
                                                   found.ToString(), ", that of ", whole.net.name,
                                                   " ", expected.spec.ToString()));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Program> BuildProgram(const Graph& graph, const ProgramOptions& options) {
  ASSIGN_OR_RETURN(ResolvedGraph resolved, Resolve(graph, options.mode));
  return BuildProgram(std::move(resolved), options);
}

absl::StatusOr<Program> BuildProgram(ResolvedGraph graph, const ProgramOptions& options) {
  RETURN_IF_ERROR(CheckSgd(options.sgd));
  if (options.accounting == Accounting::kPaper) return BuildPaperProgram(graph, options);
  return ProgramBuilder(std::move(graph), options).Build();
}

absl::StatusOr<Program> BuildPart(ResolvedGraph graph, const Program& whole) {
  const std::string name = graph.options.name;
  ProgramBuilder builder(std::move(graph), whole.options);
  builder.Adopt(whole);
  Program part = builder.Build();
  if (builder.unknown_tensor().has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", whole.net.name, " has no ", *builder.unknown_tensor()));
  }
  RETURN_IF_ERROR(CheckSameBatch(part, whole));
  return part;
}

}  // namespace neap
