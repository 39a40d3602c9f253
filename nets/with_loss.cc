#include "neap/nets/with_loss.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
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

}  // namespace neap::nets
