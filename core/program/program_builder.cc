// BuildProgram with exact accounting: lowers a resolved graph to steps.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/stable_hash.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/program/optimizer_steps.h"
#include "neap/core/program/paper_program.h"
#include "neap/core/program/persistent_tensors.h"
#include "neap/core/program/program.h"
#include "neap/core/program/update_groups.h"
#include "neap/core/step/specify.h"

namespace neap {
namespace {

// Of a layer for whose backward gradients wait. Backward of a layer with a larger output takes a
// hundred microseconds or more on the fastest GPUs, and a launch a few.
constexpr int64_t kLargestOutputBytes = 32 * kMiB;

class ProgramBuilder {
 public:
  ProgramBuilder(ResolvedGraph graph, const ProgramOptions& options)
      : graph_(std::move(graph)), layers_(graph_.layers.size()), persistent_(program_) {
    program_.net = graph_.options;
    program_.options = options;
  }

  // For a part of the network of `whole`.
  void Adopt(const Program& whole) { persistent_.Adopt(whole); }
  const std::optional<std::string>& unknown_tensor() const { return persistent_.unknown(); }

  Program Build() {
    for (const ResolvedLayer& layer : graph_.layers) {
      program_.layers.push_back(
          {layer.name, layer.layer, StableHash(layer.name), layer.spec.traits});
    }
    for (const ResolvedLayer& layer : graph_.layers)
      layers_[layer.id.index()].persistent = persistent_.Make(layer);
    persistent_.MakeLossScale();
    iteration_ = NewTensor("iteration", Role::kInput, {Shape{4}, DType::kInt32, Layout::kNchw});
    for (const ResolvedLayer& layer : graph_.layers) {
      for (LayerId input : layer.inputs) ++layers_[input.index()].readers;
    }
    MarkGradientsNeeded();
    program_.iteration = iteration_;
    for (const ResolvedLayer& layer : graph_.layers) Forward(layer);
    if (program_.options.mode == Mode::kTraining) {
      GroupUpdates();
      for (size_t i = graph_.layers.size(); i-- > 0;) Backward(graph_.layers[i]);
      if (ScalesLoss(program_.net)) UpdateChecked();
    }
    return std::move(program_);
  }

 private:
  // The tensors of one layer that have been created so far.
  struct LayerTensors {
    std::optional<TensorId> output;
    std::optional<TensorId> output_grad;
    bool output_grad_shared = false;  // also another layer's gradient: must not be accumulated into
    std::optional<TensorId> other_grad;  // to be added to output_grad where that is read
    std::optional<TensorId> linear_grad;
    int readers = 0;  // inputs of layers that are its output
    bool needs_grad = false;
    LayerPersistent persistent;
    std::vector<TensorId> param_grads, saved;
    // The layers whose parameters are checked or updated after this one's backward, the last.
    std::vector<LayerId> updated_group;
  };

  TensorId NewTensor(std::string name, Role role, TensorSpec spec) {
    const TensorId id(program_.tensors.size());
    program_.tensors.push_back(
        {.id = id, .name = std::move(name), .role = role, .spec = std::move(spec)});
    return id;
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
      program_.metrics = tensors.persistent.states[0];
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
      tensors.param_grads.push_back(NewTensor(absl::StrCat(ParamName(layer, param), ".grad"),
                                              Role::kParamGrad, InFullPrecision(param.tensor)));
    }
    for (const StepSpec& spec : layer.spec.steps) {
      if (spec.phase == Phase::kBackwardActivation) {
        tensors.linear_grad =
            NewTensor(absl::StrCat(layer.name, ".linear_grad"), Role::kGradient, layer.spec.output);
      }
      if (spec.phase != Phase::kForward) AddStep(layer, spec);
    }
    if (tensors.updated_group.empty()) return;
    const std::vector<UpdatedLayer> updated = Updated(tensors.updated_group);
    Add(ScalesLoss(program_.net) ? Steps().Check(updated) : Steps().Update(updated), layer.id);
  }

  // Whose parameters have gradients, in the order of backward.
  std::vector<LayerId> Learning() const {
    std::vector<LayerId> learning;
    for (size_t i = graph_.layers.size(); i-- > 0;) {
      const ResolvedLayer& layer = graph_.layers[i];
      const bool learns = !layer.inputs.empty() && !layer.spec.passes_gradient;
      if (learns && !layer.spec.params.empty()) learning.push_back(layer.id);
    }
    return learning;
  }

  // With a scaled loss, all gradients wait until the end in any case.
  std::vector<std::vector<LayerId>> Groups(const std::vector<LayerId>& layers) const {
    UpdateGroupRules rules = {.bytes = program_.options.update_group_bytes};
    if (!ScalesLoss(program_.net)) rules.largest_output_bytes = kLargestOutputBytes;
    return UpdateGroups(graph_, layers, rules);
  }

  // The step of a group of layers runs when backward of the last one is done.
  void GroupUpdates() {
    for (std::vector<LayerId>& group : Groups(Learning())) {
      const size_t last = group.back().index();
      layers_[last].updated_group = std::move(group);
    }
  }

  // The end of an iteration with a scaled loss: gradients have been checked, so all parameters are
  // updated, or none.
  void UpdateChecked() {
    std::vector<LayerId> updated;
    for (size_t i = graph_.layers.size(); i-- > 0;) {
      const LayerTensors& tensors = layers_[i];
      const auto& backups = tensors.persistent.backups;
      const bool restores = std::any_of(backups.begin(), backups.end(),
                                        [](const auto& backup) { return backup.has_value(); });
      if (!tensors.param_grads.empty() || restores) updated.push_back(graph_.layers[i].id);
    }
    for (const std::vector<LayerId>& group : Groups(updated))
      Add(Steps().Update(Updated(group)), group.back());
    Add(Steps().UpdateScale(), graph_.layers.back().id);
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
      if (AddsOtherGrad(input, graph_.layers[layer.inputs[i].index()])) {
        input.other_grad = tensors.output_grad;
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
    if (spec.sums_output_grads && layers_[layer.id.index()].other_grad.has_value()) {
      const Operand other = {Slot::kOutputGrad, 1};
      step.reads.push_back({TensorOf(layer, other), other});
    }
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

  // Whether the only backward step that reads the gradient of the layer's output adds two tensors.
  static bool SumsOutputGrads(const ResolvedLayer& layer) {
    const auto reads = [](const StepSpec& step) {
      return std::count(step.reads.begin(), step.reads.end(), Operand{Slot::kOutputGrad}) > 0;
    };
    const std::vector<StepSpec>& steps = layer.spec.steps;
    const auto reader = std::find_if(steps.begin(), steps.end(), reads);
    return reader != steps.end() && reader->sums_output_grads &&
           std::none_of(reader + 1, steps.end(), reads);
  }

  // Whether a second tensor may become the other gradient of the layer's output.
  static bool AddsOtherGrad(const LayerTensors& tensors, const ResolvedLayer& layer) {
    return tensors.needs_grad && !tensors.output_grad_shared && tensors.readers == 2 &&
           SumsOutputGrads(layer);
  }

  // The step contributes to the gradient of input `index`: as its first writer, by adding a shared
  // gradient, as the second of two tensors that the producer's backward adds, or by accumulating
  // into a sum.
  void AddGradient(const ResolvedLayer& layer, int index, const StepSpec& spec, Step& step) {
    const LayerId source = layer.inputs[static_cast<size_t>(index)];
    LayerTensors& input = layers_[source.index()];
    const bool has_other_writes = spec.writes.size() > 1;
    if (!input.needs_grad && !has_other_writes) return;
    const Operand operand = {Slot::kInputGrad, index};
    const ResolvedLayer& producer = graph_.layers[source.index()];
    if (input.output_grad.has_value() && !input.output_grad_shared) {
      if (AddsOtherGrad(input, producer)) {
        input.other_grad = NewTensor(absl::StrCat(producer.name, ".other_grad"), Role::kGradient,
                                     producer.spec.output);
        step.writes.push_back({*input.other_grad, operand});
      } else {
        step.accumulates.push_back({*input.output_grad, operand});
      }
      return;
    }
    if (input.output_grad.has_value()) {
      step.reads.push_back({*input.output_grad, {Slot::kAddend, index}});
    }
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

  OptimizerSteps Steps() const {
    return {.iteration = iteration_, .loss_scale = program_.loss_scale};
  }
  std::vector<UpdatedLayer> Updated(const std::vector<LayerId>& group) const {
    std::vector<UpdatedLayer> updated;
    for (LayerId id : group) {
      const LayerTensors& tensors = layers_[id.index()];
      updated.push_back({&tensors.persistent, &tensors.param_grads});
    }
    return updated;
  }
  void Add(Step step, LayerId layer) {
    step.id = StepId(program_.steps.size());
    step.layer = layer;
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
        return i == 0 ? *own.output_grad : *own.other_grad;
      case Slot::kLinearGrad:
        return *own.linear_grad;
      case Slot::kInputGrad:
      case Slot::kAddend:
        return *layers_[layer.inputs[i].index()].output_grad;
      case Slot::kParam:
        return own.persistent.params[i];
      case Slot::kParamGrad:
        return own.param_grads[i];
      case Slot::kSaved:
        return own.saved[i];
      case Slot::kState:
        return own.persistent.states[i];
      case Slot::kLossScale:
        return *program_.loss_scale;
      case Slot::kOptimizer:  // of the optimizer's steps, which are not specified by a layer
      case Slot::kMaster:
      case Slot::kBackup:
      case Slot::kIteration:
        return iteration_;
    }
    return iteration_;
  }

  ResolvedGraph graph_;
  Program program_;
  std::vector<LayerTensors> layers_;  // by LayerId
  TensorId iteration_;
  PersistentTensors persistent_;
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
  if (options.mode == Mode::kTraining && !options.trainable)
    return absl::InvalidArgumentError("training needs the persistent tensors of training");
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
