#include "neap/nets/with_loss.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap::nets {

absl::StatusOr<Graph> WithLabelSmoothing(const Graph& net, float label_smoothing) {
  Graph changed(net.options());
  for (GraphLayer layer : net.layers()) {
    const bool is_softmax = layer.layer.As<SoftmaxCrossEntropy>() != nullptr;
    if (is_softmax) {
      layer.layer = SoftmaxCrossEntropy{.label_smoothing = label_smoothing};
    } else if (layer.role == LayerRole::kLoss && label_smoothing != 0) {
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
  const auto replaced =
      std::find_if(resolved.layers.begin(), resolved.layers.end(),
                   [](const ResolvedLayer& layer) { return layer.role == LayerRole::kLoss; });
  const ResolvedLayer& predictions = resolved.layers[replaced->inputs[0].index()];
  const Shape& shape = predictions.spec.output.shape;
  Graph changed(net.options());
  for (const GraphLayer& layer : net.layers()) {
    if (layer.role != LayerRole::kLoss && layer.role != LayerRole::kLabels) changed.Add(layer);
  }
  changed.TargetLoss(predictions.name, loss, {shape.c(), shape.h(), shape.w()});
  return changed;
}

}  // namespace neap::nets
