#include "neap/nets/with_loss.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/convolution.h"
#include "neap/layers/loss/dice_loss.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"
#include "neap/layers/tokens/linear_cross_entropy.h"

namespace neap::nets {
namespace {

// `loss` with another weight, if it is one of neap's.
template <typename Definition>
std::optional<Layer> WeightedAs(const Layer& loss, float weight) {
  const auto* const definition = loss.As<Definition>();
  if (definition == nullptr) return std::nullopt;
  Definition weighted = *definition;
  weighted.weight = weight;
  return weighted;
}
std::optional<Layer> WeightedOfTargets(const Layer& loss, float weight) {
  if (auto squared = WeightedAs<MeanSquaredError>(loss, weight)) return squared;
  if (auto binary = WeightedAs<BinaryCrossEntropy>(loss, weight)) return binary;
  return WeightedAs<FocalLoss>(loss, weight);
}
std::optional<Layer> WeightedOfLabels(const Layer& loss, float weight) {
  if (auto softmax = WeightedAs<SoftmaxCrossEntropy>(loss, weight)) return softmax;
  return WeightedAs<DiceLoss>(loss, weight);
}
// That of a loss of neap's for labels; nothing of others.
std::optional<float> WeightOfLabelled(const Layer& loss) {
  if (const auto* const softmax = loss.As<SoftmaxCrossEntropy>()) return softmax->weight;
  if (const auto* const dice = loss.As<DiceLoss>()) return dice->weight;
  return std::nullopt;
}

// That of a loss of neap's for targets; nothing of others.
std::optional<float> WeightOfTargeted(const Layer& loss) {
  if (const auto* const squared = loss.As<MeanSquaredError>()) return squared->weight;
  if (const auto* const binary = loss.As<BinaryCrossEntropy>()) return binary->weight;
  if (const auto* const focal = loss.As<FocalLoss>()) return focal->weight;
  return std::nullopt;
}

// `loss` in the place of another, times that one's weight.
absl::StatusOr<Layer> InPlaceOf(const ResolvedLayer& replaced, const Layer& loss) {
  const float weight = replaced.spec.loss_weight;
  if (const std::optional<float> given = WeightOfTargeted(loss); given.has_value())
    return *WeightedOfTargets(loss, *given * weight);
  const bool is_main = replaced.role == LayerRole::kLoss;
  if (is_main && weight == 1) return loss;
  return absl::InvalidArgumentError(
      absl::StrCat("layer '", replaced.name, is_main ? "': a" : "': an auxiliary", " loss of type ",
                   std::string(replaced.layer.type()), " cannot become one of type ",
                   std::string(loss.type()), " with the same weight"));
}

// Of one image.
Shape WithoutBatch(const Shape& shape) {
  return Shape(Shape::Dims(shape.dims().begin() + 1, shape.dims().end()));
}

}  // namespace

absl::StatusOr<Graph> WithLabelSmoothing(const Graph& net, float label_smoothing) {
  Graph changed(net.options(), net);
  for (GraphLayer layer : net.layers()) {
    if (const auto* const softmax = layer.layer.As<SoftmaxCrossEntropy>()) {
      SoftmaxCrossEntropy smoothed = *softmax;
      smoothed.label_smoothing = label_smoothing;
      layer.layer = smoothed;
    } else if (IsLoss(layer.role) && label_smoothing != 0) {
      return absl::InvalidArgumentError(absl::StrCat("layer '", layer.name, "': a loss of type ",
                                                     std::string(layer.layer.type()),
                                                     " has no labels to smooth"));
    }
    changed.Add(std::move(layer));
  }
  return changed;
}

absl::StatusOr<Graph> WithLabelLoss(const Graph& net, const Layer& loss) {
  const std::optional<float> given = WeightOfLabelled(loss);
  if (!given.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a loss of type ", std::string(loss.type()), " is none of neap's for labels"));
  }
  Graph changed(net.options(), net);
  for (GraphLayer layer : net.layers()) {
    if (IsLoss(layer.role)) {
      const std::optional<float> weight = WeightOfLabelled(layer.layer);
      if (!weight.has_value()) {
        return absl::InvalidArgumentError(absl::StrCat("layer '", layer.name, "': a loss of type ",
                                                       std::string(layer.layer.type()),
                                                       " has no labels to compare with"));
      }
      layer.layer = *WeightedOfLabels(loss, *weight * *given);
    }
    changed.Add(std::move(layer));
  }
  return changed;
}

absl::StatusOr<Graph> WithLogits(const Graph& net) {
  Graph changed(net.options(), net);
  for (GraphLayer layer : net.layers()) {
    const auto* const linear = layer.layer.As<LinearCrossEntropy>();
    if (linear == nullptr) {
      changed.Add(std::move(layer));
      continue;
    }
    for (const GraphOutput& output : net.outputs()) {
      if (output.name == layer.name) {
        return absl::InvalidArgumentError(absl::StrCat(
            "layer '", layer.name, "': the loss is an output, and its logits would have its name"));
      }
    }
    if (layer.inputs.size() != 2) {
      return absl::InvalidArgumentError(
          absl::StrCat("layer '", layer.name, "': takes 2 inputs, got ", layer.inputs.size()));
    }
    const Convolution logits = {
        .out_channels = linear->classes, .bias = linear->bias, .init = linear->init};
    const SoftmaxCrossEntropy loss = {.weight = linear->weight};
    changed.Add(layer.name, logits, {layer.inputs[0]});
    changed.Add({.name = absl::StrCat(layer.name, ".labels"),
                 .layer = loss,
                 .inputs = {layer.name, layer.inputs[1]},
                 .role = layer.role});
  }
  return changed;
}

absl::StatusOr<Graph> WithTargetLoss(const Graph& net, const Layer& loss) {
  ASSIGN_OR_RETURN(const ResolvedGraph resolved, Resolve(net, Mode::kInference));
  const ResolvedLayer* main = nullptr;
  for (const ResolvedLayer& layer : resolved.layers) {
    if (layer.role != LayerRole::kLoss) continue;
    if (main != nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("the network has several losses: '",
                                                     main->name, "' and '", layer.name, "'"));
    }
    main = &layer;
  }
  if (main == nullptr) return absl::InvalidArgumentError("the network has no loss");
  absl::flat_hash_set<std::string> targets;
  for (const ResolvedLayer& layer : resolved.layers) {
    if (layer.is_target) targets.insert(layer.name);
  }
  Graph changed(net.options(), net);
  for (const GraphLayer& layer : net.layers()) {
    if (!IsLoss(layer.role) && !targets.contains(layer.name)) changed.Add(layer);
  }
  const LayerOutput predictions = main->inputs[0];
  const std::string wanted =
      changed.Input("targets", WithoutBatch(resolved.SpecOf(predictions).shape), DType::kFp32);
  ASSIGN_OR_RETURN(Layer main_loss, InPlaceOf(*main, loss));
  // Its name stays, because the loss may be an output.
  changed.Loss(main->name, std::move(main_loss), {resolved.NameOf(predictions), wanted});
  for (const ResolvedLayer& layer : resolved.layers) {
    if (layer.role != LayerRole::kAuxiliaryLoss) continue;
    ASSIGN_OR_RETURN(Layer auxiliary, InPlaceOf(layer, loss));
    changed.AuxiliaryLoss(resolved.NameOf(layer.inputs[0]), std::move(auxiliary));
  }
  return changed;
}

}  // namespace neap::nets
