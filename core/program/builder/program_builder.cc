#include "neap/core/program/builder/program_builder.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/stable_hash.h"
#include "neap/core/program/learning.h"
#include "neap/core/step/specify.h"

namespace neap {

ProgramBuilder::ProgramBuilder(PartGraphs parts, const ProgramOptions& options)
    : graph_(std::move(parts.each)),
      last_(std::move(parts.last)),
      sizes_(parts.sizes),
      sub_batch_(sizes_.Part(0)),
      program_({.net = graph_.options, .options = options}),
      tensors_(graph_.layers.size() * static_cast<size_t>(sizes_.count)),
      persistent_(program_) {
  program_.options.sub_batches = sizes_.count;
  program_.options.batch_norm_in_parts = parts.has_statistics_of_parts;
}

Program ProgramBuilder::Build() {
  AddLayers();
  MakePersistent();
  persistent_.MakeLossScale();
  iteration_ =
      NewTensor("iteration", Role::kInput, {Shape{4}, DType::kInt32, Layout::kChannelsFirst});
  for (const ResolvedLayer& layer : graph_.layers) {
    Tensors(layer.id).outputs.resize(static_cast<size_t>(layer.spec.output_count()));
    for (LayerOutput input : layer.inputs) ++Tensors(input).readers;
  }
  const Accumulation& accumulation = program_.options.accumulation;
  const bool updates = program_.options.mode == Mode::kTraining &&
                       (!accumulation.is_on() || accumulation.is_update());
  const bool clips = updates && program_.options.optimizer.clips();
  if (clips) gradient_norm_ = NewTensor("gradient_norm", Role::kGradient, VectorSpec(1));
  MarkLearning(graph_, Current());
  program_.iteration = iteration_;
  if (accumulation.is_update()) {
    UpdateAccumulated();
    return std::move(program_);
  }
  for (int64_t i = 0; i < sizes_.count; ++i) {
    if (i > 0) BeginSubBatch(i);
    RunSubBatch();
  }
  return std::move(program_);
}

void ProgramBuilder::AddLayers() {
  const auto add_all = [this](const SubBatch& sub_batch) {
    for (const ResolvedLayer& layer : graph_.layers) {
      const uint64_t seed = StableHash(layer.seed_name.empty() ? layer.name : layer.seed_name);
      program_.layers.push_back(
          {NameInSubBatch(layer.name, sub_batch), layer.layer, seed, layer.spec.traits, sub_batch});
    }
  };
  for (int64_t i = 0; i < sizes_.count; ++i) add_all(sizes_.Part(i));
  if (sizes_.count > 1) add_all({.images = sizes_.images});
}

void ProgramBuilder::MakePersistent() {
  absl::flat_hash_set<std::string> known;
  for (const ResolvedLayer& layer : graph_.layers) {
    Tensors(layer.id).persistent = persistent_.Make(layer);
    for (const SharedParam& shared : layer.shared) {  // two layers may be made of one
      if (known.insert(shared.param).second) program_.shared.push_back(shared);
    }
  }
}

absl::Span<LayerTensors> ProgramBuilder::Current() {
  return absl::MakeSpan(tensors_).subspan(FirstLayer(), graph_.layers.size());
}

void ProgramBuilder::BeginSubBatch(int64_t index) {
  sub_batch_ = sizes_.Part(index);
  if (IsLastSubBatch() && last_.has_value()) graph_ = *std::move(last_);
  for (const ResolvedLayer& layer : graph_.layers) {
    const LayerTensors& first = tensors_[layer.id.index()];
    Tensors(layer.id) = {.outputs = std::vector<OutputTensors>(first.outputs.size()),
                         .needs_grad = first.needs_grad,
                         .persistent = first.persistent,
                         .param_grads = first.param_grads};
    for (size_t i = 0; i < first.outputs.size(); ++i)
      Tensors(layer.id).outputs[i].readers = first.outputs[i].readers;
  }
}

void ProgramBuilder::RunSubBatch() {
  const bool infers = program_.options.mode == Mode::kInference;
  for (const ResolvedLayer& layer : graph_.layers) {
    if (!(infers && layer.training_only)) Forward(layer);
  }
  if (infers) return;
  UpdateWriter updates = Updates();
  const bool is_updated = IsLastSubBatch() && !program_.options.accumulation.is_on();
  if (is_updated) updates.Group();
  for (size_t i = graph_.layers.size(); i-- > 0;) {
    Backward(graph_.layers[i]);
    updates.AfterBackward(graph_.layers[i].id);
  }
  if (is_updated) updates.End();
}

UpdateWriter ProgramBuilder::Updates() {
  return UpdateWriter(graph_, Current(), {iteration_, program_.loss_scale, gradient_norm_},
                      program_);
}

void ProgramBuilder::UpdateAccumulated() {
  for (const ResolvedLayer& layer : graph_.layers) MakeParamGrads(layer);
  UpdateWriter updates = Updates();
  updates.Group();
  for (size_t i = graph_.layers.size(); i-- > 0;) updates.AfterBackward(graph_.layers[i].id);
  updates.End();
}

TensorId ProgramBuilder::NewOfSubBatch(std::string_view name, Role role, TensorSpec spec) {
  return NewTensor(NameInSubBatch(name, sub_batch_), role, std::move(spec));
}

TensorId ProgramBuilder::NewTensor(std::string name, Role role, TensorSpec spec) {
  const TensorId id(program_.tensors.size());
  program_.tensors.push_back(
      {.id = id, .name = std::move(name), .role = role, .spec = std::move(spec)});
  return id;
}

void ProgramBuilder::Forward(const ResolvedLayer& layer) {
  if (layer.role == LayerRole::kCaller) return;
  LayerTensors& tensors = Tensors(layer.id);
  for (int i = 0; i < layer.spec.output_count(); ++i) {
    tensors.outputs[static_cast<size_t>(i)].value =
        NewOfSubBatch(OutputName(layer.name, i), OutputRole(layer), layer.spec.OutputSpec(i));
  }
  AddToPorts(graph_, layer, Current(), ports_, program_);
  AddKept(layer);
  for (const SavedSpec& saved : layer.spec.saved) {
    tensors.saved.push_back(
        NewOfSubBatch(absl::StrCat(layer.name, ".", saved.name), Role::kSaved, saved.tensor));
  }
  for (const StepSpec& spec : layer.spec.steps) {
    if (spec.phase == Phase::kForward) AddStep(layer, spec);
  }
}

void ProgramBuilder::Backward(const ResolvedLayer& layer) {
  LayerTensors& tensors = Tensors(layer.id);
  if (layer.inputs.empty() || !tensors.needs_grad) return;
  if (layer.spec.passes_gradient) {
    PassGradient(layer);
    return;
  }
  MakeParamGrads(layer);
  for (const StepSpec& spec : layer.spec.steps) {
    if (spec.phase == Phase::kBackwardActivation) {
      tensors.linear_grad = NewOfSubBatch(absl::StrCat(layer.name, ".linear_grad"), Role::kGradient,
                                          layer.spec.output);
    }
    if (spec.phase != Phase::kForward) AddStep(layer, spec);
  }
  PassLinearGradient(layer);
}

void ProgramBuilder::MakeParamGrads(const ResolvedLayer& layer) {
  LayerTensors& tensors = Tensors(layer.id);
  const bool learns = !layer.inputs.empty() && tensors.needs_grad;
  for (size_t i = tensors.param_grads.size(); learns && i < layer.spec.params.size(); ++i)
    tensors.param_grads.push_back(ParamGradOf(layer, i));
}

TensorId ProgramBuilder::ParamGradOf(const ResolvedLayer& layer, size_t i) {
  const PersistentParam& persistent = Tensors(layer.id).persistent.params[i];
  if (persistent.gradient.has_value()) return *persistent.gradient;
  const TensorId param = persistent.id;
  if (const auto known = param_grads_.find(param); known != param_grads_.end())
    return known->second;
  const ParamSpec& spec = layer.spec.params[i];
  const TensorId gradient = NewTensor(absl::StrCat(ParamName(layer, spec), ".grad"),
                                      Role::kParamGrad, InFullPrecision(spec.tensor));
  program_.tensors.back().shards = program_.tensor(param).shards;
  param_grads_.emplace(param, gradient);
  return gradient;
}

void ProgramBuilder::PassGradient(const ResolvedLayer& layer) {
  const std::optional<TensorId> grad = Tensors(layer.id).outputs[0].grad;
  for (size_t i = 0; i < layer.inputs.size(); ++i) {
    if (!Tensors(layer.inputs[i].layer).needs_grad) continue;
    OutputTensors& input = Tensors(layer.inputs[i]);
    if (!input.grad.has_value()) {
      input.grad = grad;
      input.is_grad_shared = true;
      continue;
    }
    const bool differs = *input.grad != *grad;
    if (differs && AddsOtherGrad(input, graph_.Producer(layer.inputs[i]).spec)) {
      input.other_grad = grad;
      continue;
    }
    AddStep(layer, {.phase = Phase::kBackwardData,
                    .reads = {{Slot::kOutputGrad}},
                    .writes = {{Slot::kInputGrad, static_cast<int>(i)}},
                    .accumulates_natively = NativeSlots(layer.spec, Phase::kBackwardData)});
  }
}

void ProgramBuilder::PassLinearGradient(const ResolvedLayer& layer) {
  if (!layer.spec.passes_linear_grad.has_value()) return;
  const LayerOutput passed = layer.inputs[static_cast<size_t>(*layer.spec.passes_linear_grad)];
  if (!Tensors(passed.layer).needs_grad) return;
  const LayerTensors& own = Tensors(layer.id);
  OutputTensors& input = Tensors(passed);
  input.grad = own.linear_grad.has_value() ? own.linear_grad : own.outputs[0].grad;
  input.is_grad_shared = true;
}

void ProgramBuilder::AddStep(const ResolvedLayer& layer, const StepSpec& spec) {
  if (spec.phase == Phase::kBackwardData && !WantsAnyWrite(layer, spec)) return;
  Step step = {.id = StepId(program_.steps.size()),
               .layer = LayerId(FirstLayer() + layer.id.index()),
               .phase = spec.phase};
  step.accumulates_natively = spec.accumulates_natively;
  step.depends_on_part = spec.depends_on_part;
  step.summed = spec.summed;
  step.states_of_all_ranks = spec.states_of_all_ranks;
  step.flops = spec.flops;
  for (Operand operand : spec.reads) {
    if (IsKnown(layer, operand)) step.reads.push_back({TensorOf(layer, operand), operand});
  }
  if (spec.sums_output_grads && Tensors(layer.id).outputs[0].other_grad.has_value()) {
    const Operand other = {Slot::kOutputGrad, 1};
    step.reads.push_back({TensorOf(layer, other), other});
  }
  for (Operand operand : spec.rerun_reads)
    step.rerun_reads.push_back({TensorOf(layer, operand), operand});
  for (Operand operand : spec.accumulates) {
    (AddsTo(layer, operand, true) ? step.accumulates : step.writes)
        .push_back({TensorOf(layer, operand), operand});
  }
  for (Operand operand : spec.writes) {
    if (operand.slot == Slot::kInputGrad) {
      AddGradient(layer, operand.index, spec, step);
    } else {
      (AddsTo(layer, operand, false) ? step.accumulates : step.writes)
          .push_back({TensorOf(layer, operand), operand});
    }
  }
  if (spec.phase == Phase::kPause) {
    HandOut(step, program_);
    if (program_.Pauses()) kept_.clear();
  }
  for (const auto& [written, read] : spec.in_place) AddInPlace(written, read, step);
  RemoveKept(step);
  program_.steps.push_back(std::move(step));
}

void ProgramBuilder::AddKept(const ResolvedLayer& layer) {
  for (const LayerResult& result : layer.results)
    kept_.insert(TensorOf(layer, {Slot::kOutput, result.output}));
  if (!IsLoss(layer.role) || program_.options.mode == Mode::kTraining) return;
  kept_.insert({TensorOf(layer, {Slot::kInput}), TensorOf(layer, {Slot::kOutput})});
}

void ProgramBuilder::RemoveKept(Step& step) const {
  std::erase_if(step.in_place, [&](const auto& pair) { return kept_.contains(pair.second); });
}

bool ProgramBuilder::AddsTo(const ResolvedLayer& layer, Operand operand, bool accumulates) {
  if (operand.slot == Slot::kParamGrad) {
    const bool is_first = written_.insert(TensorOf(layer, operand)).second;
    return !is_first || accumulates || program_.options.accumulation.index > 0;
  }
  return accumulates || (sub_batch_.index > 0 && operand.slot == Slot::kState);
}

bool ProgramBuilder::WantsAnyWrite(const ResolvedLayer& layer, const StepSpec& spec) const {
  for (Operand operand : spec.writes) {
    if (operand.slot != Slot::kInputGrad) return true;
    if (Tensors(layer.inputs[static_cast<size_t>(operand.index)].layer).needs_grad) return true;
  }
  return false;
}

void ProgramBuilder::AddGradient(const ResolvedLayer& layer, int index, const StepSpec& spec,
                                 Step& step) {
  const LayerOutput source = layer.inputs[static_cast<size_t>(index)];
  const bool needs_grad = Tensors(source.layer).needs_grad;
  const bool has_other_writes = spec.writes.size() > 1;
  const Operand operand = {Slot::kInputGrad, index};
  const bool is_optional =
      std::count(spec.optional_writes.begin(), spec.optional_writes.end(), operand) > 0;
  if (!needs_grad && (is_optional || !has_other_writes)) return;
  const ResolvedLayer& producer = graph_.Producer(source);
  const std::string name = graph_.NameOf(source);
  OutputTensors& input = Tensors(source);
  if (needs_grad && input.grad.has_value() && AddsOtherGrad(input, producer.spec)) {
    input.other_grad =
        NewOfSubBatch(absl::StrCat(name, ".other_grad"), Role::kGradient, graph_.SpecOf(source));
    step.writes.push_back({*input.other_grad, operand});
    return;
  }
  if (input.grad.has_value() && !input.is_grad_shared) {
    step.accumulates.push_back({*input.grad, operand});
    return;
  }
  if (input.grad.has_value()) step.reads.push_back({*input.grad, {Slot::kAddend, index}});
  input.grad = NewOfSubBatch(absl::StrCat(name, ".grad"), Role::kGradient, graph_.SpecOf(source));
  input.is_grad_shared = false;
  step.writes.push_back({*input.grad, operand});
}

bool ProgramBuilder::IsKnown(const ResolvedLayer& layer, Operand operand) const {
  const std::vector<OutputTensors>& outputs = Tensors(layer.id).outputs;
  if (operand.slot != Slot::kOutputGrad || outputs.size() == 1) return true;
  return outputs[static_cast<size_t>(operand.index)].grad.has_value();
}

TensorId ProgramBuilder::TensorOf(const ResolvedLayer& layer, Operand operand) const {
  const LayerTensors& own = Tensors(layer.id);
  const size_t i = static_cast<size_t>(operand.index);
  switch (operand.slot) {
    case Slot::kInput:
      return *Tensors(layer.inputs[i]).value;
    case Slot::kOutput:
      return *own.outputs[i].value;
    case Slot::kOutputGrad:
      return i < own.outputs.size() ? *own.outputs[i].grad : *own.outputs[0].other_grad;
    case Slot::kLinearGrad:
      return *own.linear_grad;
    case Slot::kInputGrad:
    case Slot::kAddend:
      return *Tensors(layer.inputs[i]).grad;
    case Slot::kParam:
      return own.persistent.params[i].id;
    case Slot::kParamGrad:
      return own.param_grads[i];
    case Slot::kSaved:
      return own.saved[i];
    case Slot::kState:
      return own.persistent.states[i];
    case Slot::kLossScale:
      return *program_.loss_scale;
    case Slot::kGradientNorm:  // of the optimizer's steps, which are not specified by a layer
    case Slot::kOptimizer:
    case Slot::kSecondMoment:
    case Slot::kAverage:
    case Slot::kMaster:
    case Slot::kBackup:
    case Slot::kIteration:
      return iteration_;
  }
  return iteration_;
}

}  // namespace neap
