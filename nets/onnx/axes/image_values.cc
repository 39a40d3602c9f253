// Layers' outputs, and how they lie in the graph.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "neap/layers/channel_slice.h"
#include "neap/layers/channel_split.h"
#include "neap/nets/onnx/network_builder.h"

namespace neap::nets {
namespace {

using onnx_schema::Node;

// The extents with the graph's batch.
std::vector<int64_t> DimsOf(const Shape& shape, int64_t batch) {
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims[0] = batch;
  return dims;
}

// The first channel of a part of a layer's output.
struct Part {
  std::string whole;
  int64_t first;
};

std::optional<Part> PartOf(const GraphLayer& layer, const std::string& output) {
  if (const auto* const slice = layer.layer.As<ChannelSlice>())
    return Part{layer.inputs[0], slice->first};
  const auto* const split = layer.layer.As<ChannelSplit>();
  if (split == nullptr) return std::nullopt;
  int64_t first = 0;
  for (int i = 0; i < std::ssize(split->channels); ++i) {
    if (OutputName(layer.name, i) == output) return Part{layer.inputs[0], first};
    first += split->channels[static_cast<size_t>(i)];
  }
  return std::nullopt;
}

}  // namespace

ImageValue ImageValue::Unpadded() const {
  const Shape& shape = spec.shape;
  ImageValue image = {.layer = unpadded, .spec = spec, .arrangement = {}};
  std::vector<int64_t> extents(shape.spatial().begin(), shape.spatial().end());
  for (size_t i = 0; i < extents.size(); ++i) extents[i] -= padding.before[i] + padding.after[i];
  image.spec.shape = SpatialShape(shape.n(), shape.c(), extents);
  image.arrangement =
      Arrangement::OfLayer(DimsOf(image.spec.shape, /*batch=*/arrangement.layer()[0]));
  return image;
}

std::optional<size_t> ImageValue::channel_axis() const {
  if (rank() < 2) return std::nullopt;
  if (arrangement.IsWhole(1, 1) && !is_channels_last()) return 1;
  if (arrangement.IsWhole(rank() - 1, 1)) return rank() - 1;
  return std::nullopt;
}

Arrangement NetworkBuilder::ArrangementOf(const Shape& shape, Form form) const {
  std::vector<int64_t> dims = DimsOf(shape, graph_batch());
  if (form == Form::kFlat) return Arrangement::Flat(std::move(dims));
  if (form == Form::kImage) return Arrangement::OfLayer(std::move(dims));
  return Arrangement::ChannelsLast(std::move(dims));
}

void NetworkBuilder::SetArrangement(const Node& node, Arrangement arrangement) {
  std::get<ImageValue>(values_.at(node.output(0))).arrangement = std::move(arrangement);
}

std::optional<ImageValue> NetworkBuilder::WholeOf(const std::vector<ImageValue>& parts) const {
  int64_t channels = 0;
  std::string whole;
  for (const ImageValue& part : parts) {
    const std::optional<Part> found = PartOf(LayerOf(part), part.layer);
    if (!found.has_value() || found->first != channels) return std::nullopt;
    if (!whole.empty() && found->whole != whole) return std::nullopt;
    whole = found->whole;
    channels += part.spec.shape.c();
  }
  const Draft& draft = drafts_[draft_of_.at(whole)];
  for (int i = 0; i < draft.spec.output_count(); ++i) {
    const TensorSpec& spec = draft.spec.OutputSpec(i);
    if (OutputName(draft.layer.name, i) != whole || spec.shape.c() != channels) continue;
    return ImageValue{
        .layer = whole, .spec = spec, .arrangement = ArrangementOf(spec.shape, Form::kImage)};
  }
  return std::nullopt;
}

}  // namespace neap::nets
