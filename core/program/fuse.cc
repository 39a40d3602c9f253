#include "neap/core/program/fuse.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace neap {
namespace {

class Fusion {
 public:
  Fusion(ResolvedGraph graph, Mode mode, const FusionOptions& options)
      : graph_(std::move(graph)), mode_(mode), options_(options), readers_(graph_.layers.size()) {
    for (const ResolvedLayer& layer : graph_.layers) {
      for (LayerId input : layer.inputs) ++readers_[input.index()];
    }
  }

  ResolvedGraph Run() {
    for (ResolvedLayer& layer : graph_.layers) {
      if (layer.role != LayerRole::kInner) continue;
      FuseWithAnInput(layer);
      if (options_.hands_over) TakeOver(layer);
    }
    return WithoutReplaced();
  }

 private:
  void FuseWithAnInput(ResolvedLayer& layer) {
    std::vector<LayerId> latest_first = layer.inputs;
    std::sort(latest_first.begin(), latest_first.end(),
              [](LayerId a, LayerId b) { return a.index() > b.index(); });
    for (LayerId input : latest_first) {
      std::optional<ResolvedLayer> fused = Fused(graph_.layers[input.index()], layer);
      if (!fused.has_value()) continue;
      layer = *std::move(fused);
      readers_[input.index()] = 0;
      return;
    }
  }

  // Lets the only input of `reader` hand work over to it.
  void TakeOver(ResolvedLayer& reader) {
    if (reader.inputs.size() != 1) return;
    ResolvedLayer& producer = graph_.layers[reader.inputs[0].index()];
    if (!CanChange(producer, reader) || !producer.spec.states.empty()) return;
    const std::optional<std::pair<Layer, Layer>> layers = producer.layer.HandsOver(reader.layer);
    if (!layers.has_value()) return;
    ResolvedLayer first = producer, second = reader;
    first.layer = layers->first;
    second.layer = layers->second;
    second.params_of = producer.name;
    if (!Respecify(first) || first.spec.output != producer.spec.output) return;
    if (!Respecify(second) || second.spec.output != reader.spec.output) return;
    producer = std::move(first);
    reader = std::move(second);
  }

  // Whether the output of `producer` is only seen by `reader`, which is a function of its inputs.
  bool CanChange(const ResolvedLayer& producer, const ResolvedLayer& reader) const {
    const bool read_once = readers_[producer.id.index()] == 1;
    const bool is_function = reader.spec.params.empty() && reader.spec.states.empty();
    return producer.role == LayerRole::kInner && read_once && is_function;
  }

  // Sets the layer's spec. False if it does not suit its inputs: a sum of three tensors, for
  // example, for which there is no fused layer.
  bool Respecify(ResolvedLayer& layer) const {
    LayerContext context = {.inputs = {}, .mode = mode_};
    for (LayerId input : layer.inputs)
      context.inputs.push_back(graph_.layers[input.index()].spec.output);
    absl::StatusOr<LayerSpec> spec = layer.layer.Specify(context);
    if (!spec.ok()) return false;
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
        const bool replaced = readers_[between] == 0;
        if (!replaced && std::count(inputs.begin(), inputs.end(), input) > 0) return true;
      }
    }
    return false;
  }

  // A layer for both, in the place of `reader`.
  std::optional<ResolvedLayer> Fused(const ResolvedLayer& producer,
                                     const ResolvedLayer& reader) const {
    if (!CanChange(producer, reader)) return std::nullopt;
    if (ChangesOrder(producer, reader)) return std::nullopt;
    const std::optional<Layer> layer = producer.layer.FusedWith(reader.layer);
    if (!layer.has_value()) return std::nullopt;
    ResolvedLayer fused = {.id = reader.id,
                           .name = producer.name,
                           .layer = *layer,
                           .inputs = producer.inputs,
                           .role = reader.role,
                           .spec = {}};
    for (LayerId input : reader.inputs) {
      if (input == producer.id) continue;
      // One step cannot write the gradient of one tensor twice.
      if (std::count(fused.inputs.begin(), fused.inputs.end(), input) > 0) return std::nullopt;
      fused.inputs.push_back(input);
    }
    if (!Respecify(fused) || fused.spec.output != reader.spec.output) return std::nullopt;
    return fused;
  }

  // A layer that is read by nothing has been fused into another, except for the loss.
  ResolvedGraph WithoutReplaced() {
    ResolvedGraph result = {.options = graph_.options, .layers = {}};
    std::vector<LayerId> position(graph_.layers.size());
    for (ResolvedLayer& layer : graph_.layers) {
      if (readers_[layer.id.index()] == 0 && layer.role != LayerRole::kLoss) continue;
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
  std::vector<int> readers_;  // by LayerId: how many times its output is read; 0 if it was replaced
};

}  // namespace

ResolvedGraph Fuse(ResolvedGraph graph, Mode mode, const FusionOptions& options) {
  return Fusion(std::move(graph), mode, options).Run();
}

}  // namespace neap
