#include "neap/nets/onnx/tokens/head_axes.h"

#include <cstddef>
#include <optional>
#include <vector>

#include "neap/nets/onnx/axes/rearrange.h"

namespace neap::nets {

absl::Status NoAttention() {
  return absl::UnimplementedError(
      "it reads the product of two layers' outputs, which neap has in an attention only");
}

Factors HeadAxes::channels() const {
  Factors channels = heads;
  channels.insert(channels.end(), dims.begin(), dims.end());
  return channels;
}

std::optional<HeadAxes> HeadAxesOf(const ImageValue& x) {
  const std::vector<Factors>& axes = x.arrangement.axes();
  if (axes.size() < 3 || axes[0].empty() || axes[0][0].axis != 0) return std::nullopt;
  HeadAxes found = {.heads = {}, .positions = axes[axes.size() - 2], .dims = axes.back()};
  for (size_t i = 0; i + 2 < axes.size(); ++i)
    found.heads.insert(found.heads.end(), axes[i].begin(), axes[i].end());
  found.heads.erase(found.heads.begin());  // N
  return found;
}

absl::StatusOr<ImageValue> WithHeads(const onnx_schema::Node& node, NetworkBuilder& network,
                                     const ImageValue& x) {
  const std::optional<HeadAxes> axes = HeadAxesOf(x);
  if (!axes.has_value()) return NoAttention();
  const Factors channels = axes->channels();
  const std::vector<Factors> of_layer = Arrangement::OfLayer(x.arrangement.layer()).axes();
  Factors spatial;
  for (size_t i = 2; i < of_layer.size(); ++i)
    spatial.insert(spatial.end(), of_layer[i].begin(), of_layer[i].end());
  if (Joined(channels) == of_layer[1] && Joined(axes->positions) == Joined(spatial)) return x;
  return WithAxes(node, network, x, {channels, axes->positions});
}

}  // namespace neap::nets
