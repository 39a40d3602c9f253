// Writes the layers of tokens.
#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/tokens/embedding.h"
#include "neap/layers/tokens/position_embedding.h"
#include "neap/nets/onnx/network_builder.h"
#include "neap/nets/onnx/node_attributes.h"
#include "neap/nets/onnx/node_writer.h"

namespace neap::nets {

using onnx_schema::Node;

bool NodeWriter::IsIds(const ResolvedLayer& feed) const {
  if (feed.spec.output.dtype != DType::kInt32) return false;
  for (const ResolvedLayer& layer : network_.layers) {
    for (const LayerOutput input : layer.inputs) {
      if (input.layer == feed.id && layer.layer.As<Embedding>() == nullptr) return false;
    }
  }
  return true;
}

// The Gather has the layer's name, since a reader makes the layer of it. Its result has the
// channels as the last axis.
absl::Status NodeWriter::WriteEmbedding(const ResolvedLayer& layer) {
  Node& rows = AddNode(layer, "Gather", Axes::kImages);
  RETURN_IF_ERROR(AddWeights(layer, rows));
  rows.mutable_input()->SwapElements(0, 1);  // the table comes before the ids
  const int rank = layer.spec.output.shape.rank();
  if (network_.SpecOf(layer.inputs[0]).shape.rank() == 1) {
    is_flat_[layer.id.index()] = true;
    return absl::OkStatus();
  }
  rows.set_output(0, absl::StrCat(layer.name, ".rows"));
  Node& images = *graph_.add_node();
  images.set_name(absl::StrCat(layer.name, ".channels"));
  images.set_op_type("Transpose");
  images.add_input(rows.output(0));
  images.add_output(layer.name);
  SetInts(images, "perm", ChannelOrder(rank, /*to_last=*/false));
  return absl::OkStatus();
}

absl::Status NodeWriter::WriteTokens(const ResolvedLayer& layer) {
  if (layer.layer.As<Embedding>() != nullptr) return WriteEmbedding(layer);
  if (layer.layer.As<PositionEmbedding>() == nullptr) return WriteLinear(layer);
  return AddWeights(layer, AddNode(layer, "Add", Axes::kImages));
}

}  // namespace neap::nets
