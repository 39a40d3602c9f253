// Writes the layers of tokens.
#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/tokens/embedding.h"
#include "neap/layers/tokens/position_embedding.h"
#include "neap/layers/tokens/prepend_token.h"
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

// The weight {1, C, 1} is repeated for every image, and joined with the sequences.
absl::Status NodeWriter::WritePrependToken(const ResolvedLayer& layer) {
  const std::string x = As(false, layer.inputs[0], layer.name);
  const auto add = [&](std::string_view suffix, std::string_view op) -> Node& {
    Node& node = *graph_.add_node();
    node.set_name(absl::StrCat(layer.name, ".", std::string(suffix)));
    node.set_op_type(std::string(op));
    node.add_output(node.name());
    return node;
  };
  Node& batch = add("batch", "Shape");
  batch.add_input(x);
  SetInt(batch, "start", 0);
  SetInt(batch, "end", 1);
  Node& shape = add("shape", "Concat");
  shape.add_input(batch.name());
  AddIntegers("rest", {layer.spec.output.shape.c(), 1}, shape);
  SetInt(shape, "axis", 0);
  Node& token = add("token", "Expand");
  RETURN_IF_ERROR(AddWeights(layer, token));
  token.add_input(shape.name());
  Node& joined = AddNode(layer, "Concat", Axes::kImages);
  joined.add_input(token.name());
  joined.mutable_input()->SwapElements(0, 1);  // the token comes first
  SetInt(joined, "axis", 2);
  return absl::OkStatus();
}

absl::Status NodeWriter::WriteTokens(const ResolvedLayer& layer) {
  if (layer.layer.As<Embedding>() != nullptr) return WriteEmbedding(layer);
  if (layer.layer.As<PrependToken>() != nullptr) return WritePrependToken(layer);
  if (const auto* const attention = layer.layer.As<Attention>())
    return WriteAttention(layer, *attention);
  if (layer.layer.As<PositionEmbedding>() == nullptr) return WriteLinear(layer);
  return AddWeights(layer, AddNode(layer, "Add", Axes::kImages));
}

}  // namespace neap::nets
