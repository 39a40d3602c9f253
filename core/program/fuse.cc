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

// The layers that have the parameters and states, if there are any.
std::vector<std::string> OwnersOf(const ResolvedLayer& layer) {
  if (!HasParamsOrStates(layer)) return {};
  return layer.owners.empty() ? std::vector<std::string>{layer.name} : layer.owners;
}

class Fusion {
 public:
  Fusion(ResolvedGraph graph, Mode mode, const FusionOptions& options)
      : graph_(std::move(graph)),
        mode_(mode),
        options_(options),
        readers_(graph_.layers.size()),
        shared_(SharedParamNames(graph_)) {
    for (const ResolvedLayer& layer : graph_.layers) {
      for (LayerId input : layer.inputs) ++readers_[input.index()];
      if (!layer.output.empty()) ++readers_[layer.id.index()];
    }
  }

  ResolvedGraph Run() {
    for (const Stage stage : {Stage::kFirst, Stage::kMiddle, Stage::kLast}) {
      if (stage == Stage::kFirst && !options_.folding) continue;
      if (stage == Stage::kLast && !options_.convolutions) continue;
      for (ResolvedLayer& layer : graph_.layers) {
        if (layer.role != LayerRole::kInner || IsReplaced(layer.id)) continue;
        while (FuseWithAnInput(layer, stage)) continue;
        if (stage == Stage::kLast) TakeOver(layer);
      }
    }
    return WithoutReplaced();
  }

 private:
  // What LayerTraits say of the layers that are fused, and of the one that they become.
  enum class Stage { kFirst, kMiddle, kLast };
  static Stage StageOf(const ResolvedLayer& producer, const ResolvedLayer& fused) {
    if (fused.spec.traits.fuses_first) return Stage::kFirst;
    return producer.spec.traits.fuses_last ? Stage::kLast : Stage::kMiddle;
  }

  // Whether there was an input with which it could be fused at this stage.
  bool FuseWithAnInput(ResolvedLayer& layer, Stage stage) {
    std::vector<LayerId> latest_first = layer.inputs;
    std::sort(latest_first.begin(), latest_first.end(),
              [](LayerId a, LayerId b) { return a.index() > b.index(); });
    for (LayerId input : latest_first) {
      const ResolvedLayer& producer = graph_.layers[input.index()];
      std::optional<ResolvedLayer> fused = Fused(producer, layer);
      if (!fused.has_value() || StageOf(producer, *fused) != stage) continue;
      layer = *std::move(fused);
      readers_[input.index()] = 0;
      return true;
    }
    return false;
  }

  // Lets the only input of `reader` hand work over to it.
  void TakeOver(ResolvedLayer& reader) {
    if (reader.inputs.size() != 1) return;
    ResolvedLayer& producer = graph_.layers[reader.inputs[0].index()];
    if (!ReadOnce(producer) || !producer.spec.states.empty() || HasParamsOrStates(reader)) return;
    const std::optional<std::pair<Layer, Layer>> layers = producer.layer.HandsOver(reader.layer);
    if (!layers.has_value()) return;
    ResolvedLayer first = producer, second = reader;
    first.layer = layers->first;
    second.layer = layers->second;
    second.owners = {producer.name};
    second.shared = producer.shared;
    if (!Respecify(first) || first.spec.output != producer.spec.output) return;
    if (!Respecify(second) || second.spec.output != reader.spec.output) return;
    KeepInits(producer, first);
    KeepInits(producer, second);
    producer = std::move(first);
    reader = std::move(second);
  }

  // Whether it is part of a later layer, as a layer is that nothing reads any more. Losses and the
  // caller are never read.
  bool IsReplaced(LayerId layer) const {
    return readers_[layer.index()] == 0 && graph_.layers[layer.index()].role == LayerRole::kInner;
  }

  // Whether a single reader sees the output of `producer`, and nothing else.
  bool ReadOnce(const ResolvedLayer& producer) const {
    return producer.role == LayerRole::kInner && producer.output.empty() &&
           readers_[producer.id.index()] == 1;
  }

  LayerContext ContextOf(const ResolvedLayer& layer) const {
    LayerContext context = {.inputs = {}, .mode = mode_};
    for (LayerId input : layer.inputs)
      context.inputs.push_back(graph_.layers[input.index()].spec.output);
    return context;
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
    for (LayerId input : producer.inputs) {
      if (readers_[input.index()] == 1) continue;
      for (size_t between = producer.id.index() + 1; between < reader.id.index(); ++between) {
        const std::vector<LayerId>& inputs = graph_.layers[between].inputs;
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

  // A layer for both, in the place of `reader`.
  std::optional<ResolvedLayer> Fused(const ResolvedLayer& producer,
                                     const ResolvedLayer& reader) const {
    if (!ReadOnce(producer) || ChangesOrder(producer, reader)) return std::nullopt;
    const auto input = std::find(reader.inputs.begin(), reader.inputs.end(), producer.id);
    const std::optional<Layer> layer =
        producer.layer.FusedWith(reader.layer, static_cast<int>(input - reader.inputs.begin()));
    if (!layer.has_value()) return std::nullopt;
    ResolvedLayer fused = reader;  // where it ran, and its role
    fused.name = producer.name;
    fused.layer = *layer;
    fused.inputs = producer.inputs;
    fused.owners = OwnersOf(producer);
    fused.shared.insert(fused.shared.end(), producer.shared.begin(), producer.shared.end());
    for (std::string& owner : OwnersOf(reader)) fused.owners.push_back(std::move(owner));
    for (LayerId input : reader.inputs) {
      if (input == producer.id) continue;
      // One step cannot write the gradient of one tensor twice.
      if (std::count(fused.inputs.begin(), fused.inputs.end(), input) > 0) return std::nullopt;
      fused.inputs.push_back(input);
    }
    if (!Respecify(fused) || fused.spec.output != reader.spec.output) return std::nullopt;
    if (!Gains(fused) || PassesIntoSum(fused) || !MayShare(fused)) return std::nullopt;
    KeepInits(producer, fused);
    KeepInits(reader, fused);
    return fused;
  }

  bool Gains(const ResolvedLayer& fused) const {
    if (options_.batch == 0) return fused.spec.traits.gains_by_fusion;
    LayerContext context = ContextOf(fused);
    for (TensorSpec& input : context.inputs) input = WithFirstExtent(input, options_.batch);
    const absl::StatusOr<LayerSpec> spec = fused.layer.Specify(context);
    return spec.ok() && spec->traits.gains_by_fusion;
  }

  // Whether the input whose gradient the layer passes on is read by a later layer, too. Backward of
  // that one runs first, so the gradient would be a sum already (LayerSpec::passes_linear_grad).
  bool PassesIntoSum(const ResolvedLayer& layer) const {
    if (!layer.spec.passes_linear_grad.has_value()) return false;
    const LayerId input = layer.inputs[static_cast<size_t>(*layer.spec.passes_linear_grad)];
    for (size_t later = layer.id.index() + 1; later < graph_.layers.size(); ++later) {
      const std::vector<LayerId>& inputs = graph_.layers[later].inputs;
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
      for (LayerId& input : layer.inputs) input = position[input.index()];
      result.layers.push_back(std::move(layer));
    }
    return result;
  }

  ResolvedGraph graph_;
  const Mode mode_;
  const FusionOptions options_;
  // By LayerId: how many layers read its output, and whether the caller does; 0 if it was replaced.
  std::vector<int> readers_;
  const absl::flat_hash_set<std::string> shared_;  // parameters of several layers
};

}  // namespace

ResolvedGraph Fuse(ResolvedGraph graph, Mode mode, const FusionOptions& options) {
  return Fusion(std::move(graph), mode, options).Run();
}

}  // namespace neap
