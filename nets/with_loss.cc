#include "neap/nets/with_loss.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"

namespace neap::nets {
namespace {

// The weight of an auxiliary loss, if it is one of neap's.
std::optional<float> WeightOf(const Layer& loss) {
  if (const auto* const l = loss.As<SoftmaxCrossEntropy>()) return l->auxiliary_weight;
  if (const auto* const l = loss.As<MeanSquaredError>()) return l->auxiliary_weight;
  if (const auto* const l = loss.As<BinaryCrossEntropy>()) return l->auxiliary_weight;
  return std::nullopt;
}

// `loss` as an auxiliary one, if it is one of neap's for targets.
std::optional<Layer> Weighted(const Layer& loss, float weight) {
  if (loss.As<MeanSquaredError>() != nullptr) return MeanSquaredError{.auxiliary_weight = weight};
  if (loss.As<BinaryCrossEntropy>() != nullptr)
    return BinaryCrossEntropy{.auxiliary_weight = weight};
  return std::nullopt;
}

}  // namespace

absl::StatusOr<Graph> WithLabelSmoothing(const Graph& net, float label_smoothing) {
  Graph changed(net.options());
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

absl::StatusOr<Graph> WithTargetLoss(const Graph& net, const Layer& loss) {
  ASSIGN_OR_RETURN(const ResolvedGraph resolved, Resolve(net, Mode::kInference));
  Graph changed(net.options());
  for (const GraphLayer& layer : net.layers()) {
    if (!IsLoss(layer.role) && layer.role != LayerRole::kLabels) changed.Add(layer);
  }
  const auto main =
      std::find_if(resolved.layers.begin(), resolved.layers.end(),
                   [](const ResolvedLayer& layer) { return layer.role == LayerRole::kLoss; });
  const ResolvedLayer& predictions = resolved.layers[main->inputs[0].index()];
  const Shape& shape = predictions.spec.output.shape;
  changed.TargetLoss(predictions.name, loss, {shape.c(), shape.h(), shape.w()});
  for (const GraphLayer& layer : net.layers()) {
    if (layer.role != LayerRole::kAuxiliaryLoss) continue;
    const std::optional<float> weight = WeightOf(layer.layer);
    std::optional<Layer> auxiliary;
    if (weight.has_value()) auxiliary = Weighted(loss, *weight);
    if (!auxiliary.has_value()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "layer '", layer.name, "': an auxiliary loss of type ", std::string(layer.layer.type()),
          " cannot become one of type ", std::string(loss.type()), " with the same weight"));
    }
    changed.AuxiliaryLoss(layer.inputs[0], *std::move(auxiliary));
  }
  return changed;
}

}  // namespace neap::nets
