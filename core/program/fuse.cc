#include "neap/core/program/fuse.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "neap/core/program/layer_tensors.h"
#include "neap/core/step/check_spec.h"

namespace neap {
namespace {

bool HasParamsOrStates(const ResolvedLayer& layer) {
  return !layer.spec.params.empty() || !layer.spec.states.empty();
}

bool DrawsRandomNumbers(const LayerSpec& spec) {
  return std::any_of(spec.steps.begin(), spec.steps.end(), [](const StepSpec& step) {
    return std::count(step.reads.begin(), step.reads.end(), Operand{Slot::kIteration}) > 0;
  });
}

// The layers that have the parameters and states, if there are any.
std::vector<std::string> OwnersOf(const ResolvedLayer& layer) {
  if (!HasParamsOrStates(layer)) return {};
  return layer.owners.empty() ? std::vector<std::string>{layer.name} : layer.owners;
}

class Fusion {
 public:
  Fusion(ResolvedGraph graph, Mode mode, const RewriteRules& rules, const FusionOptions& options)
      : graph_(std::move(graph)),
        mode_(mode),
        rules_(rules),
        options_(options),
        readers_(graph_.layers.size()),
        shared_(SharedParamNames(graph_)) {
    for (const ResolvedLayer& layer : graph_.layers) {
      for (LayerOutput input : layer.inputs) ++readers_[input.layer.index()];
      if (!layer.results.empty()) ++readers_[layer.id.index()];
    }
  }

  ResolvedGraph Run() {
    using enum FusionStage;
    for (const FusionStage stage : {kFold, kPass, kEpilogue}) {
      if (stage == kFold && !options_.folds) continue;
      for (ResolvedLayer& layer : graph_.layers) {
        if (layer.role != LayerRole::kInner || IsReplaced(layer.id)) continue;
        while (FuseWithAnInput(layer, stage)) continue;
        if (stage == kEpilogue) MoveInto(layer);
      }
    }
    return WithoutReplaced();
  }

 private:
  // Whether there was an input with which it could be fused at this stage.
  bool FuseWithAnInput(ResolvedLayer& layer, FusionStage stage) {
    std::vector<LayerId> latest_first;
    for (LayerOutput input : layer.inputs) latest_first.push_back(input.layer);
    std::sort(latest_first.begin(), latest_first.end(),
              [](LayerId a, LayerId b) { return a.index() > b.index(); });
    for (LayerId input : latest_first) {
      std::optional<ResolvedLayer> fused = Fused(graph_.layers[input.index()], layer, stage);
      if (!fused.has_value()) continue;
      layer = *std::move(fused);
      readers_[input.index()] = 0;
      return true;
    }
    return false;
  }

  // Moves work of the only input of `reader` into it.
  void MoveInto(ResolvedLayer& reader) {
    if (reader.inputs.size() != 1) return;
    ResolvedLayer& producer = graph_.layers[reader.inputs[0].layer.index()];
    if (!ReadOnce(producer) || !producer.spec.states.empty() || !reader.spec.states.empty()) return;
    if (SharesWithOneBetween(producer, reader)) return;
    for (const MoveRule& rule : rules_.moves) {
      if (rule.producer != producer.layer.type() || rule.reader != reader.layer.type()) continue;
      const std::optional<std::pair<Layer, Layer>> layers = rule.move(producer.layer, reader.layer);
      if (layers.has_value() && Move(*layers, producer, reader)) return;
    }
  }

  // Makes the two layers of `producer` and `reader`. False if they do not suit their inputs.
  bool Move(const std::pair<Layer, Layer>& layers, ResolvedLayer& producer,
            ResolvedLayer& reader) const {
    ResolvedLayer first = producer, second = reader;
    first.layer = layers.first;
    second.layer = layers.second;
    second.owners = {producer.name};
    for (std::string& owner : OwnersOf(reader)) second.owners.push_back(std::move(owner));
    second.shared.insert(second.shared.end(), producer.shared.begin(), producer.shared.end());
    if (!Respecify(first) || !HasOutputOf(producer, first)) return false;
    if (!Respecify(second) || !HasOutputOf(reader, second) || !MayShare(second)) return false;
    KeepInits(producer, first);
    KeepInits(producer, second);
    KeepInits(reader, second);
    producer = std::move(first);
    reader = std::move(second);
    return true;
  }

  // Whether it is part of a later layer, as a layer is that nothing reads any more. Losses and the
  // caller are never read.
  bool IsReplaced(LayerId layer) const {
    return readers_[layer.index()] == 0 && graph_.layers[layer.index()].role == LayerRole::kInner;
  }

  // Whether a single reader sees the output of `producer`, its only one, and nothing else.
  bool ReadOnce(const ResolvedLayer& producer) const {
    return producer.role == LayerRole::kInner && producer.results.empty() &&
           producer.spec.output_count() == 1 && readers_[producer.id.index()] == 1;
  }

  // Whether `layer` can take the place of one with the output of `replaced`, its only one.
  static bool HasOutputOf(const ResolvedLayer& replaced, const ResolvedLayer& layer) {
    return layer.spec.output == replaced.spec.output && replaced.spec.output_count() == 1 &&
           layer.spec.output_count() == 1;
  }

  LayerContext ContextOf(const ResolvedLayer& layer) const {
    return ContextIn(graph_.options, mode_, graph_.InputSpecs(layer));
  }

  // Sets the layer's spec. False if it does not suit its inputs: a sum of three tensors, for
  // example, for which there is no fused layer.
  bool Respecify(ResolvedLayer& layer) const {
    const LayerContext context = ContextOf(layer);
    absl::StatusOr<LayerSpec> spec = layer.layer.Specify(context);
    if (!spec.ok() || !CheckSpec(*spec, context, IsLoss(layer.role)).ok()) return false;
    layer.spec = *std::move(spec);
    return true;
  }

  // Whether another layer, between the two, reads an input of `producer`. Its gradient is then a
  // sum to which the three layers contribute in another order if `producer` runs later, and a sum
  // in another order has other bits.
  bool ChangesOrder(const ResolvedLayer& producer, const ResolvedLayer& reader) const {
    for (LayerOutput input : producer.inputs) {
      if (readers_[input.layer.index()] == 1) continue;
      for (size_t between = producer.id.index() + 1; between < reader.id.index(); ++between) {
        const std::vector<LayerOutput>& inputs = graph_.layers[between].inputs;
        if (!IsReplaced(LayerId(between)) && std::count(inputs.begin(), inputs.end(), input) > 0)
          return true;
      }
    }
    return SharesWithOneBetween(producer, reader);
  }

  // Whether a layer between the two has a parameter of `producer`, whose gradient is such a sum,
  // too.
  bool SharesWithOneBetween(const ResolvedLayer& producer, const ResolvedLayer& reader) const {
    for (const ParamSpec& param : producer.spec.params) {
      const std::string name = ParamName(producer, param);
      if (!shared_.contains(name)) continue;
      for (size_t i = producer.id.index() + 1; i < reader.id.index(); ++i) {
        const ResolvedLayer& between = graph_.layers[i];
        const std::vector<ParamSpec>& params = between.spec.params;
        const bool has_it = std::any_of(params.begin(), params.end(), [&](const ParamSpec& own) {
          return ParamName(between, own) == name;
        });
        if (has_it && !IsReplaced(between.id)) return true;
      }
    }
    return false;
  }

  // Whether the layer can have its parameters: one step cannot write a gradient twice, nor read one
  // to which other layers add.
  bool MayShare(const ResolvedLayer& fused) const {
    absl::flat_hash_set<std::string> own;
    for (const ParamSpec& param : fused.spec.params) {
      const std::string name = ParamName(fused, param);
      if (!own.insert(name).second) return false;
      if (shared_.contains(name) && ReadsParamGrad(fused.spec)) return false;
    }
    return true;
  }

  // A layer for both, in the place of `reader`, by a rule of the stage.
  std::optional<ResolvedLayer> Fused(const ResolvedLayer& producer, const ResolvedLayer& reader,
                                     FusionStage stage) const {
    if (!ReadOnce(producer)) return std::nullopt;
    const auto input =
        std::find(reader.inputs.begin(), reader.inputs.end(), LayerOutput{producer.id});
    const int index = static_cast<int>(input - reader.inputs.begin());
    for (const FusionRule& rule : rules_.fusions) {
      if (rule.stage != stage || rule.producer != producer.layer.type() ||
          rule.reader != reader.layer.type()) {
        continue;
      }
      const std::optional<Layer> layer = rule.fuse(producer.layer, reader.layer, index);
      if (!layer.has_value() || ChangesOrder(producer, reader)) continue;
      if (std::optional<ResolvedLayer> fused = Fused(*layer, rule, producer, reader)) return fused;
    }
    return std::nullopt;
  }

  // The same with `layer`, which the rule made.
  std::optional<ResolvedLayer> Fused(const Layer& layer, const FusionRule& rule,
                                     const ResolvedLayer& producer,
                                     const ResolvedLayer& reader) const {
    ResolvedLayer fused = reader;  // where it ran, and its role
    fused.name = producer.name;
    fused.layer = layer;
    if (!DrawsRandomNumbers(reader.spec)) {
      fused.seed_name = producer.seed_name;
    } else if (reader.seed_name.empty()) {
      fused.seed_name = reader.name;
    }
    fused.inputs = producer.inputs;
    fused.owners = OwnersOf(producer);
    fused.shared.insert(fused.shared.end(), producer.shared.begin(), producer.shared.end());
    for (std::string& owner : OwnersOf(reader)) fused.owners.push_back(std::move(owner));
    for (LayerOutput input : reader.inputs) {
      if (input.layer == producer.id) continue;
      // One step cannot write the gradient of one tensor twice.
      if (std::count(fused.inputs.begin(), fused.inputs.end(), input) > 0) return std::nullopt;
      fused.inputs.push_back(input);
    }
    if (!Respecify(fused) || !HasOutputOf(reader, fused)) return std::nullopt;
    if (!Gains(rule, fused) || PassesIntoSum(fused) || !MayShare(fused)) return std::nullopt;
    if (options_.sums_gradients && ReadsParamGrad(fused.spec)) return std::nullopt;
    KeepInits(producer, fused);
    KeepInits(reader, fused);
    return fused;
  }

  bool Gains(const FusionRule& rule, const ResolvedLayer& fused) const {
    if (rule.gains == nullptr) return true;
    LayerContext context = ContextOf(fused);
    if (options_.batch != 0) {
      for (TensorSpec& input : context.inputs) input = WithFirstExtent(input, options_.batch);
    }
    return rule.gains(fused.layer, context);
  }

  // Whether the input whose gradient the layer passes on is read by a later layer, too. Backward of
  // that one runs first, so the gradient would be a sum already (LayerSpec::passes_linear_grad).
  bool PassesIntoSum(const ResolvedLayer& layer) const {
    if (!layer.spec.passes_linear_grad.has_value()) return false;
    const LayerOutput input = layer.inputs[static_cast<size_t>(*layer.spec.passes_linear_grad)];
    for (size_t later = layer.id.index() + 1; later < graph_.layers.size(); ++later) {
      const std::vector<LayerOutput>& inputs = graph_.layers[later].inputs;
      if (!IsReplaced(LayerId(later)) && std::count(inputs.begin(), inputs.end(), input) > 0)
        return true;
    }
    return false;
  }

  ResolvedGraph WithoutReplaced() {
    ResolvedGraph result = {.options = graph_.options, .layers = {}};
    std::vector<LayerId> position(graph_.layers.size());
    for (ResolvedLayer& layer : graph_.layers) {
      if (IsReplaced(layer.id)) continue;
      const LayerId id(result.layers.size());
      position[layer.id.index()] = id;
      layer.id = id;
      for (LayerOutput& input : layer.inputs) input.layer = position[input.layer.index()];
      result.layers.push_back(std::move(layer));
    }
    return result;
  }

  ResolvedGraph graph_;
  const Mode mode_;
  const RewriteRules& rules_;
  const FusionOptions options_;
  // By LayerId: how many layers read its output, and whether the caller does; 0 if it was replaced.
  std::vector<int> readers_;
  const absl::flat_hash_set<std::string> shared_;  // parameters of several layers
};

}  // namespace

ResolvedGraph Fuse(ResolvedGraph graph, Mode mode, const RewriteRules& rules,
                   const FusionOptions& options) {
  return Fusion(std::move(graph), mode, rules, options).Run();
}

}  // namespace neap
