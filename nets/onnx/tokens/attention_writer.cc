// Writes Attention as exporters do before there is an operator for it (opset 23).
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/attention/attention_shape.h"
#include "neap/nets/onnx/node_attributes.h"
#include "neap/nets/onnx/node_writer.h"

namespace neap::nets {
namespace {

using onnx_schema::Node;

// A node NAME.SUFFIX that reads these values, and whose output is called like it.
Node& Behind(onnx_schema::Graph& graph, const ResolvedLayer& layer, std::string_view suffix,
             std::string_view op, const std::vector<std::string>& inputs) {
  Node& node = *graph.add_node();
  node.set_name(absl::StrCat(layer.name, ".", std::string(suffix)));
  node.set_op_type(std::string(op));
  for (const std::string& input : inputs) node.add_input(input);
  node.add_output(node.name());
  return node;
}

// The extents of the heads of the query {N, kv_heads, heads / kv_heads, d, T}, or of key and value,
// whose third one is 1. Without shared heads there is no third one.
std::vector<int64_t> Divided(const Attention& attention, int64_t channels, bool is_query) {
  const int64_t kv_heads = attention.kv_heads_or_heads();
  const int64_t heads = is_query ? attention.heads : kv_heads;
  std::vector<int64_t> dims = {0, kv_heads};
  if (kv_heads != attention.heads) dims.push_back(heads / kv_heads);
  dims.insert(dims.end(), {channels / heads, -1});
  return dims;
}

// Of so many axes, the last two in the other order.
std::vector<int64_t> LastSwapped(size_t rank) {
  std::vector<int64_t> order;
  for (size_t i = 0; i < rank; ++i) order.push_back(static_cast<int64_t>(i));
  std::swap(order[rank - 1], order[rank - 2]);
  return order;
}

}  // namespace

// The product with the values has the layer's name, since a reader makes the layer of it. Names of
// the transposes say that they are no layers.
absl::Status NodeWriter::WriteAttention(const ResolvedLayer& layer, const Attention& attention) {
  if (attention.rotary_dims != 0)
    return absl::UnimplementedError("rotated queries and keys, which ONNX has no nodes for");
  if (attention.window_bias.has_value())
    return absl::UnimplementedError("a bias of the offsets in a window");
  const std::vector<TensorSpec> specs = network_.InputSpecs(layer);
  if (SequencesOf(attention, specs[0].shape) != 1)
    return absl::UnimplementedError("sequences beside each other in an image");
  const bool is_one = specs.size() < 3;
  std::vector<std::string> inputs;
  for (const LayerOutput input : layer.inputs) inputs.push_back(As(false, input, layer.name));
  const int64_t kv_heads = attention.kv_heads_or_heads();
  const int64_t dims =
      specs[0].shape.c() / (is_one ? attention.heads + 2 * kv_heads : attention.heads);
  std::vector<int64_t> channels = {attention.heads * dims, kv_heads * dims, kv_heads * dims};
  if (is_one) {
    Node& split = Behind(graph_, layer, "parts", "Split", {inputs[0]});
    split.clear_output();
    inputs.erase(inputs.begin());
    for (const char* const part : {"query", "key", "value"})
      split.add_output(absl::StrCat(layer.name, ".", part));
    inputs.insert(inputs.begin(), split.output().begin(), split.output().end());
    SetInt(split, "axis", 1);
    AddIntegers("split", channels, split);
  } else {
    channels[2] = specs[2].shape.c();
  }
  std::vector<std::string>
      heads;  // of the query {.., T, d}, the key {.., d, T}, the value {.., T, d}
  constexpr std::string_view kNames[] = {"query", "key", "value"};
  for (size_t i = 0; i < 3; ++i) {
    const std::string name(kNames[i]);
    const std::vector<int64_t> divided = Divided(attention, channels[i], i == 0);
    Node& node = Behind(graph_, layer, name + ".heads", "Reshape", {inputs[i]});
    AddIntegers("shape", divided, node);
    heads.push_back(node.name());
    if (i == 1) continue;
    Node& swapped = Behind(graph_, layer, name + ".channels_last", "Transpose", {heads.back()});
    SetInts(swapped, "perm", LastSwapped(divided.size()));
    heads.back() = swapped.name();
  }
  ASSIGN_OR_RETURN(const std::string weights,
                   WriteWeights(layer, attention, {heads[0], heads[1]}, dims));
  Node& product = Behind(graph_, layer, "product", "MatMul", {weights, heads[2]});
  product.set_name(layer.name);
  Node& swapped = Behind(graph_, layer, "swapped.channels_last", "Transpose", {product.output(0)});
  SetInts(swapped, "perm", LastSwapped(Divided(attention, channels[2], true).size()));
  Node& images = Behind(graph_, layer, "images", "Reshape", {swapped.name()});
  images.set_output(0, layer.name);
  const Shape& shape = layer.spec.output.shape;
  std::vector<int64_t> target = {0, shape.c()};
  target.insert(target.end(), shape.spatial().begin(), shape.spatial().end());
  AddIntegers("shape", target, images);
  return absl::OkStatus();
}

absl::StatusOr<std::string> NodeWriter::WriteWeights(const ResolvedLayer& layer,
                                                     const Attention& attention,
                                                     const std::vector<std::string>& operands,
                                                     int64_t dims) {
  Node* node = &Behind(graph_, layer, "scores", "MatMul", operands);
  const float scale = attention.scale != 0
                          ? attention.scale
                          : static_cast<float>(1 / std::sqrt(static_cast<double>(dims)));
  node = &Behind(graph_, layer, "scaled", "Mul", {node->name()});
  AddScalar("scale", scale, *node);
  const std::vector<TensorSpec> specs = network_.InputSpecs(layer);
  const int64_t queries = specs[0].shape.positions();
  const int64_t keys = specs[specs.size() < 3 ? 0 : 1].shape.positions();
  const bool shares_heads = attention.kv_heads_or_heads() != attention.heads;
  const bool has_input = specs.size() == 2 || specs.size() == 4;
  if (shares_heads && (has_input || attention.learned_bias))
    return absl::UnimplementedError("a bias of heads that share keys");
  if (has_input) {
    const std::string bias = As(false, layer.inputs.back(), layer.name);
    node = &Behind(graph_, layer, "biased", "Add", {node->name(), bias});
  }
  if (attention.learned_bias) {
    node = &Behind(graph_, layer, "biased", "Add", {node->name()});
    RETURN_IF_ERROR(AddWeights(layer, *node));
  }
  if (attention.causal) {
    node = &Behind(graph_, layer, "hidden", "Add", {node->name()});
    std::vector<float> mask;
    for (int64_t query = 0; query < queries; ++query) {
      for (int64_t key = 0; key < keys; ++key)
        mask.push_back(key > query ? -std::numeric_limits<float>::infinity() : 0.0F);
    }
    AddNumbers("mask", mask, *node);
    onnx_schema::Tensor& tensor = *graph_.mutable_initializer(graph_.initializer_size() - 1);
    tensor.clear_dims();
    tensor.add_dims(queries);
    tensor.add_dims(keys);
  }
  node = &Behind(graph_, layer, "weights", "Softmax", {node->name()});
  SetInt(*node, "axis", -1);
  return node->name();
}

}  // namespace neap::nets
