#include "neap/core/program/paper_program.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"

namespace neap {
namespace {

class PaperBuilder {
 public:
  PaperBuilder(const ResolvedGraph& graph, const ProgramOptions& options)
      : graph_(graph), grads_(graph.layers.size()), readers_(graph.layers.size(), 0) {
    program_.net = graph.options;
    program_.options = options;
  }

  Program Build() {
    for (const ResolvedLayer& layer : graph_.layers) {
      program_.layers.push_back({layer.name, layer.layer, 0, layer.spec.traits});
      outputs_.push_back(NewTensor(layer.name, OutputRole(layer), layer.spec.output));
      for (LayerOutput input : layer.inputs) ++readers_[input.layer.index()];
    }
    const bool trains = program_.options.mode == Mode::kTraining;
    for (const ResolvedLayer& layer : graph_.layers) {
      if (!layer.inputs.empty() && (trains || !layer.training_only)) Forward(layer);
    }
    if (trains) {
      for (size_t i = graph_.layers.size(); i-- > 0;) {
        if (!graph_.layers[i].inputs.empty()) Backward(graph_.layers[i]);
      }
    }
    return std::move(program_);
  }

 private:
  TensorId NewTensor(std::string name, Role role, TensorSpec spec) {
    const TensorId id(program_.tensors.size());
    program_.tensors.push_back(
        {.id = id, .name = std::move(name), .role = role, .spec = std::move(spec)});
    return id;
  }

  Step& NewStep(const ResolvedLayer& layer, Phase phase) {
    program_.steps.push_back(
        {.id = StepId(program_.steps.size()), .layer = layer.id, .phase = phase});
    for (size_t i = 0; i < layer.inputs.size(); ++i) {
      program_.steps.back().reads.push_back(
          {outputs_[layer.inputs[i].layer.index()], {Slot::kInput, static_cast<int>(i)}});
    }
    return program_.steps.back();
  }

  void Forward(const ResolvedLayer& layer) {
    NewStep(layer, Phase::kForward).writes.push_back({outputs_[layer.id.index()], {Slot::kOutput}});
  }

  void Backward(const ResolvedLayer& layer) {
    Step& step = NewStep(layer, Phase::kBackwardData);
    const std::optional<TensorId> dy = grads_[layer.id.index()];
    if (layer.spec.traits.paper_reads_output) {
      step.reads.push_back({outputs_[layer.id.index()], {Slot::kOutput}});
    }
    if (dy.has_value()) step.reads.push_back({*dy, {Slot::kOutputGrad}});
    for (size_t i = 0; i < layer.inputs.size(); ++i) AddGradient(layer, i, dy, step);
  }

  void AddGradient(const ResolvedLayer& layer, size_t i, std::optional<TensorId> dy, Step& step) {
    const ResolvedLayer& producer = graph_.Producer(layer.inputs[i]);
    if (producer.inputs.empty()) return;
    std::optional<TensorId>& dx = grads_[producer.id.index()];
    const Operand operand = {Slot::kInputGrad, static_cast<int>(i)};
    if (!dy.has_value() && !dx.has_value()) {
      dx = outputs_[layer.id.index()];
    } else if (dx.has_value()) {
      // A sum of a tensor with itself changes its gradient once.
      if (!Changes(step, *dx)) step.accumulates.push_back({*dx, operand});
    } else if (layer.spec.traits.paper_in_place && readers_[producer.id.index()] == 1) {
      dx = dy;
    } else {
      dx = NewTensor(absl::StrCat(producer.name, ".grad"), Role::kGradient, producer.spec.output);
      step.writes.push_back({*dx, operand});
    }
  }

  static bool Changes(const Step& step, TensorId tensor) {
    const auto is_it = [&](const Use& use) { return use.tensor == tensor; };
    return std::any_of(step.writes.begin(), step.writes.end(), is_it) ||
           std::any_of(step.accumulates.begin(), step.accumulates.end(), is_it);
  }

  const ResolvedGraph& graph_;
  Program program_;
  std::vector<TensorId> outputs_;               // by LayerId
  std::vector<std::optional<TensorId>> grads_;  // of the outputs, by LayerId
  std::vector<int> readers_;                    // by LayerId
};

}  // namespace

Program BuildPaperProgram(const ResolvedGraph& graph, const ProgramOptions& options) {
  return PaperBuilder(graph, options).Build();
}

}  // namespace neap
