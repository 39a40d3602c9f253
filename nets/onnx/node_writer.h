// Writes the layers of a network as nodes of an ONNX graph, with their weights.
//
// A value of the graph has the OutputName() of the layer that computes it. Layers have images {N,
// C, H, W}; in ONNX the output of a fully connected layer is a vector {N, C}, and so are those of
// the layers behind it, until one needs an image. A Flatten or a Reshape is written where the next
// operator needs the other form. So is a Reshape of a parameter that a fully connected layer shares
// with a convolution: it is stored once, in its owner's shape.
//
//   NodeWriter writer(network, weights, graph);
//   RETURN_IF_ERROR(writer.WriteInput(network.layers[0]));
//   RETURN_IF_ERROR(writer.Write(network.layers[1]));  // and so on
//   writer.WriteOutput({network.layers[1].id});
//
// *Ownership*: borrows all three.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/graph/graph.h"
#include "neap/core/step/window.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/channel_shuffle.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/pooling.h"
#include "neap/layers/resize/resize.h"
#include "neap/layers/scale_shift.h"
#include "neap/nets/onnx/onnx_file.h"
#include "onnx_schema.pb.h"

namespace neap::nets {

// The opset of most networks, the first one in which a Resize may have sizes of some axes alone,
// and the first one in which averages have dilation.
inline constexpr int64_t kOpset = 17;
inline constexpr int64_t kOpsetOfResizedAxes = 18;
inline constexpr int64_t kOpsetOfDilatedAverages = 19;

// The extents of one number for each channel, to be combined with images: {C, 1, 1}.
Shape PerChannelDims(const Shape& images);

class NodeWriter {
 public:
  NodeWriter(const ResolvedGraph& network, const NamedValues& weights, onnx_schema::Graph& graph)
      : network_(network), weights_(weights), graph_(graph) {
    is_flat_.resize(network.layers.size(), false);
  }

  // Errors: UNIMPLEMENTED for one that is neither floats {N, C} and spatial axes nor ids of
  // embeddings.
  absl::Status WriteInput(const ResolvedLayer& feed);
  // Writes it as {N, C}, or {N, C} and spatial axes if there are several positions; each once only.
  void WriteOutput(LayerOutput output);
  // A layer of role kInner, whose inputs are written. Errors: UNIMPLEMENTED for a type of layer
  // that ONNX has no operator for; INVALID_ARGUMENT for a tensor that `weights` lacks or that has
  // another number of values.
  absl::Status Write(const ResolvedLayer& layer);
  // The opset that what has been written needs.
  int64_t opset() const { return opset_; }

 private:
  // Whether the layer's outputs are vectors in the graph.
  bool IsFlat(LayerId layer) const { return is_flat_[layer.index()]; }
  // A node with the layer's name and its inputs as they are needed: as images, as vectors, or, if
  // all of them are, as vectors.
  enum class Axes : uint8_t { kImages, kVectors, kEither };
  onnx_schema::Node& AddNode(const ResolvedLayer& layer, std::string_view op, Axes axes);
  // A node that has the layer's name in place of `before`, whose output it reads and whose name
  // gets the suffix.
  onnx_schema::Node& AddBehind(const ResolvedLayer& layer, onnx_schema::Node& before,
                               std::string_view suffix, std::string_view op);
  // The name of the output as a vector or an image, for a node called `reader`.
  std::string As(bool flat, LayerOutput output, const std::string& reader);
  // Adds the layer's parameters and states to the inputs of its node.
  absl::Status AddWeights(const ResolvedLayer& layer, onnx_schema::Node& node);
  absl::Status AddFloats(const std::string& name, const Shape& dims, onnx_schema::Node& node);
  // Puts a Reshape before the node, the last one of the graph, which reads its output, called
  // `name`, in place of its own last input.
  void ReshapeLast(const std::string& name, const Shape& dims, onnx_schema::Node& node);
  // A constant input called NAME.WHAT.
  void AddIntegers(std::string_view what, const std::vector<int64_t>& values,
                   onnx_schema::Node& node);
  void AddNumbers(std::string_view what, const std::vector<float>& values, onnx_schema::Node& node);
  void AddScalar(std::string_view what, float value, onnx_schema::Node& node);
  void NeedOpset(int64_t opset) { opset_ = std::max(opset_, opset); }

  // A constant of a node, which is no parameter. Returns its name.
  std::string WriteConstant(const std::string& name, int64_t count, float value);
  // Adds parameter `i` of the layer with these extents to the node, the last one of the graph.
  absl::Status AddReshaped(const ResolvedLayer& layer, size_t i, const Shape& dims,
                           onnx_schema::Node& node);

  absl::Status WriteLinear(const ResolvedLayer& layer);
  // nets/onnx/tokens/token_writer.cc. Other layers are left to WriteLinear().
  absl::Status WriteTokens(const ResolvedLayer& layer);
  absl::Status WriteEmbedding(const ResolvedLayer& layer);
  absl::Status WritePrependToken(const ResolvedLayer& layer);
  // nets/onnx/tokens/attention_writer.cc
  absl::Status WriteAttention(const ResolvedLayer& layer, const Attention& attention);
  // The softmax of the scores of a query and a transposed key. Returns the name of its output.
  absl::StatusOr<std::string> WriteWeights(const ResolvedLayer& layer, const Attention& attention,
                                           const std::vector<std::string>& operands, int64_t dims);
  // Whether it has integers, which embeddings alone read.
  bool IsIds(const ResolvedLayer& feed) const;
  // nets/onnx/norms/norm_writer.cc
  absl::Status WriteNorm(const ResolvedLayer& layer);
  absl::Status WriteGroupNorm(const ResolvedLayer& layer, const GroupNorm& norm);
  absl::Status WriteInstanceNorm(const ResolvedLayer& layer, const InstanceNorm& norm);
  absl::Status WriteLayerNorm(const ResolvedLayer& layer, const LayerNorm& norm);
  bool WritePooling(const ResolvedLayer& layer);
  void WriteAverage(const ResolvedLayer& layer, const AveragePool& pool);
  bool WriteAdaptive(const ResolvedLayer& layer);
  // A Reshape to these extents of an image, a Transpose in this order, and a Reshape to the layer's
  // output.
  void WriteTransposed(const ResolvedLayer& layer, std::vector<int64_t> dims,
                       const std::vector<int64_t>& order);
  void WriteShuffle(const ResolvedLayer& layer, const ChannelShuffle& shuffle);
  bool WriteResize(const ResolvedLayer& layer, const Resize& resize);
  template <typename Shuffle>
  void WriteBlocks(const ResolvedLayer& layer, const Shuffle& shuffle);
  bool WriteResized(const ResolvedLayer& layer);
  absl::Status WriteScaleShift(const ResolvedLayer& layer, const ScaleShift& linear);
  bool WriteActivation(const ResolvedLayer& layer);
  bool WriteParts(const ResolvedLayer& layer);
  absl::Status WritePrelu(const ResolvedLayer& layer);
  bool WriteElementwise(const ResolvedLayer& layer);
  bool WriteBorder(const ResolvedLayer& layer);

  const ResolvedGraph& network_;
  const NamedValues& weights_;
  onnx_schema::Graph& graph_;
  std::vector<bool> is_flat_;                   // by layer
  absl::flat_hash_set<std::string> written_;    // parameters and states
  absl::flat_hash_set<std::string> outputs_;    // their names
  absl::flat_hash_set<std::string> converted_;  // values that As() has made
  int64_t opset_ = kOpset;
};

}  // namespace neap::nets
