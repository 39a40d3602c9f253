// The network that grows while the nodes of an ONNX graph are read in their order.
//
// A value of the graph is a constant, or the output of a layer. ONNX's values have any number of
// axes, layers' outputs {N, C} and 1 to 3 spatial axes, so a value also says how its elements lie
// in the graph's tensor (nets/onnx/axes/arrangement.h). A sequence or a volume is an image here,
// too. Some nodes make no layer: their values are the output of another layer together with what is
// still to be done, which only some readers can do (ImageValue::formula), or parts of what a later
// node makes a layer of (NormPart, AttentionPart). Others make a layer that a reader may
// do without (ImageValue::unpadded), or that joins the layer before it if that has no other reader,
// which is known at the end (Constants). Layers that nothing needs are left out.
//
// A node that is refused has a guess as its output (ImageValue::is_guess), so the nodes behind it
// can be judged, too.
//
//   NetworkBuilder network(graph, reader, options, {.opset = 17});
//   RETURN_IF_ERROR(network.AddInput());
//   RETURN_IF_ERROR(network.AddLayer(node, Relu{}, {x}));  // x: the value that the node reads
//   ASSIGN_OR_RETURN(OnnxModel model, network.Finish("lenet"));
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/graph/graph.h"
#include "neap/core/step/layer.h"
#include "neap/layers/scale_shift.h"
#include "neap/nets/onnx/axes/arrangement.h"
#include "neap/nets/onnx/constants/constant_budget.h"
#include "neap/nets/onnx/formula.h"
#include "neap/nets/onnx/onnx_file.h"
#include "neap/nets/onnx/onnx_tensor.h"
#include "onnx_schema.pb.h"

namespace neap::nets {

// Positions on both sides of an image along each of its spatial axes, outermost first.
struct Padding {
  std::array<int64_t, kMaxSpatialAxes> before = {}, after = {};
  friend bool operator==(const Padding&, const Padding&) = default;
};

// The axes of a layer's output in the ONNX graph: {N, C, H, W}, {N, H, W, C} or {N, C*H*W}.
enum class Form : uint8_t { kImage, kChannelsLast, kFlat };

// The order in which a Transpose puts the axes of {N, C, H, W} to make {N, H, W, C} of them, or the
// other way round; `rank` is the number of axes.
std::vector<int64_t> ChannelOrder(int rank, bool to_last);

// A layer's output.
struct ImageValue {
  std::string layer;
  TensorSpec spec;          // {N, C, H, W}, or with another number of spatial axes
  Arrangement arrangement;  // its axes in the ONNX graph, where N is the batch of the file
  // The layer's zeros around the output of `unpadded`, another layer; none, and no name, if it is
  // no Pad. A convolution or average pooling reads that one and adds the zeros itself.
  Padding padding = {};
  std::string unpadded = "";
  // The Transpose that gave it axes in another order than the layer's, after which a layer is
  // called that makes them its own. Null if there is none.
  const onnx_schema::Node* transpose = nullptr;
  // If so, the value is this function of each element of the layer's output.
  std::optional<Formula> formula = std::nullopt;
  bool is_guess = false;  // the result of a refused node, or of one that reads a guess
  // The output of `unpadded`.
  ImageValue Unpadded() const;
  int64_t elements() const { return spec.elements() / spec.shape.n(); }  // of an image
  // The extents in the ONNX graph.
  std::vector<int64_t> dims() const { return arrangement.dims(); }
  size_t rank() const { return arrangement.rank(); }
  bool is_image() const { return arrangement.IsOfLayer(); }
  bool is_flat() const { return arrangement.IsFlat(); }
  bool is_channels_last() const { return arrangement.IsChannelsLast(); }
  // The axis in the ONNX graph that is the channels, and nothing else: the second one, or the last
  // one. Absent if there is none.
  std::optional<size_t> channel_axis() const;
};

// A tensor of the file, perhaps with other axes.
struct Stored {
  const onnx_schema::Tensor* tensor = nullptr;
  std::optional<std::vector<int64_t>> reshaped = {};  // other extents than the file states
  // Then a matrix, {columns, rows} of what the file has, perhaps with axes of 1 behind them.
  bool is_transposed = false;
  std::string alias = "";  // the output of the last Identity on the way, if there is one
  int64_t repeats = 1;  // of its one entry along the first axis, which is the same for all images
  std::vector<int64_t> dims() const;
  const std::string& name() const { return alias.empty() ? tensor->name() : alias; }
};

// The result of a node that neap does not support, or of one that reads such a result.
struct Unsupported {};

// What a node computes of a layer's output on the way to a norm, which its last node makes.
struct NormPart {
  enum class Stage : uint8_t {
    kMean,
    kCentred,
    kSquares,
    kVariance,
    kShifted,
    kDeviation,
    kInverse
  };
  Stage stage = Stage::kMean;  // the mean over the channels, x less it, that squared, ...
  ImageValue x;
  float epsilon = 0;  // from kShifted on
  // Without a mean, the squares are those of x along this axis of the graph, and perhaps their sum.
  std::optional<size_t> axis = std::nullopt;
  bool is_sum = false;
};

// What nodes compute of queries and keys on the way to an attention, which the product with the
// values makes. All of a layer's channels are heads, one behind the other.
struct AttentionPart {
  enum class Stage : uint8_t { kScores, kWeights };
  Stage stage = Stage::kScores;  // scale query . key + bias, or its softmax
  ImageValue query, key;         // the axes of the graph end with {positions, dimensions}
  std::vector<int64_t> dims;     // of the scores in the graph
  int64_t heads = 1;
  int64_t kv_heads = 1;
  double scale = 1;
  bool causal = false;
  bool is_transposed = false;                      // the weights are {..., Tk, Tq}
  std::optional<Constant> bias = std::nullopt;     // {heads, query positions, key positions}
  std::string bias_name = "";                      // in the graph
  std::optional<ImageValue> added = std::nullopt;  // a bias of each image
};

// The input of a network of ids, which a Gather looks up.
struct IdsValue {
  std::string layer;
  TensorSpec spec;  // int32 {N, T}, for example
};

using Value =
    std::variant<Unsupported, Constant, Stored, ImageValue, NormPart, AttentionPart, IdsValue>;

// A tensor that is a parameter or a state of a layer.
struct Weight {
  std::string name;  // in the layer: "weight"
  std::variant<Stored, Constant> tensor;
  std::string value;  // its name in the graph: "conv1.weight"
  std::vector<int64_t> dims() const;
  // The same elements as a vector.
  void Flatten(int64_t elements);
};

// The operation of a node's layer with a constant for each channel. The layer is a ScaleShift that
// learns it, unless it can be a part of the layer before it.
enum class Constants : uint8_t { kNone, kAdds, kMultiplies };

// A ScaleShift without a sum, and what it reads.
struct ScaledInput {
  ScaleShift layer;
  std::vector<Weight> weights;
  std::string input;
};

// Properties of the file.
struct FileTraits {
  int64_t opset = 17;
  // If so, every Pad is a layer, no attribute is changed that makes no difference, and nodes are
  // one layer only if their names say so.
  bool written_by_neap = false;
  // How far a number of a formula may be from the one that was meant, as a part of it.
  double rounding = 0;
};

inline constexpr int64_t kMaxExtent = int64_t{1} << 24;
inline constexpr int64_t kBatchOfAny = 32;  // for a file that takes any batch

class NetworkBuilder {
 public:
  // The arguments must outlive it.
  NetworkBuilder(const onnx_schema::Graph& graph, const TensorReader& reader,
                 const OnnxOptions& options, const FileTraits& traits);

  bool written_by_neap() const { return traits_.written_by_neap; }
  int64_t opset() const { return traits_.opset; }
  double rounding() const { return traits_.rounding; }

  // Adds the image that the graph reads, or the ids. Errors: INVALID_ARGUMENT unless there is
  // exactly one input, with known extents. If there are several, the first is added (HasImages).
  absl::Status AddInput();
  bool HasImages() const { return !drafts_.empty(); }
  // Errors: INVALID_ARGUMENT unless the graph has one output.
  absl::Status CheckOutputs() const;

  // Null if no node before has it.
  const Value* Find(const std::string& name) const;
  void Set(const std::string& name, Value value) { values_[name] = std::move(value); }
  // Forgets the constants that no node behind this one reads, which may be large.
  void ForgetRead(const onnx_schema::Node& node);
  // Nodes and outputs of the graph that read the value.
  int64_t ReaderCount(const std::string& name) const;

  // Adds a layer that computes the node's first output, which has the axes of its first input in
  // the graph, or those of `form`. Errors: INVALID_ARGUMENT for shapes that do not fit,
  // UNIMPLEMENTED if the output is no such tensor.
  absl::Status AddLayer(const onnx_schema::Node& node, Layer layer,
                        const std::vector<ImageValue>& inputs, std::vector<Weight> weights = {});
  absl::Status AddLayer(const onnx_schema::Node& node, Layer layer,
                        const std::vector<ImageValue>& inputs, std::vector<Weight> weights,
                        std::optional<Form> form);
  // Adds a layer that the node needs beside its own, on images, and returns its output. It is
  // called like the node's layer with these weights, followed by `suffix`.
  absl::StatusOr<ImageValue> AddExtra(const onnx_schema::Node& node,
                                      const std::vector<Weight>& weights, std::string_view suffix,
                                      Layer layer, const std::vector<ImageValue>& inputs);

  // Adds the layer of a node that adds or multiplies by a constant for each channel, which the
  // graph calls `value`, and which may be the tensor `stored` of the file.
  absl::Status AddConstants(const onnx_schema::Node& node, Constants kind, const ImageValue& x,
                            Constant constant, std::string value,
                            std::optional<Stored> stored = std::nullopt);
  // The product that neap wrote for the layer of this node, its sum, which reads it as x.
  std::optional<ScaledInput> WrittenScale(const onnx_schema::Node& node, const ImageValue& x) const;
  // Whether constants for each channel behind these images may become a parameter of their layer.
  bool TakesConstants(const ImageValue& x, Constants kind) const;
  // Adds what stands for the output of a refused node: a value of these extents.
  ImageValue Guess(const std::string& name, const ImageValue& like);
  // The shape of a value as the file states it, as a guess. Absent if it does not.
  std::optional<ImageValue> StatedShape(const std::string& name) const;

  // Changes the axes of the node's first output, which a layer computes.
  void SetArrangement(const onnx_schema::Node& node, Arrangement arrangement);
  // Another output of the layer of which `first` is output 0, with its axes.
  ImageValue FurtherOutput(const ImageValue& first, int index) const;

  // The output of the layer of whose channels the values are all parts, in this order; absent if
  // there is none.
  std::optional<ImageValue> WholeOf(const std::vector<ImageValue>& parts) const;

  // The layer that computes a value.
  const GraphLayer& LayerOf(const ImageValue& images) const { return LayerOf(images.layer); }
  const GraphLayer& LayerOf(const std::string& output) const;

  int64_t batch() const { return batch_; }
  // The batch for which the file was written; 0 if it is for any.
  int64_t file_batch() const { return file_batch_; }
  // The N of values in the graph.
  int64_t graph_batch() const { return file_batch_ > 0 ? file_batch_ : batch_; }
  // How a layer's output lies in the graph in this form.
  Arrangement ArrangementOf(const neap::Shape& shape, Form form) const;
  absl::StatusOr<Constant> ReadConstant(const Stored& stored);
  absl::StatusOr<Constant> ReadConstant(const Weight& weight);
  // Errors: UNIMPLEMENTED if constants have more elements than a network needs.
  absl::Status CountConstant(const std::vector<int64_t>& dims) { return constants_.Add(dims); }
  ConstantBudget& budget() { return constants_; }

  // The layers that the graph's output needs, with a loss.
  absl::StatusOr<OnnxModel> Finish(std::string name);

 private:
  struct Draft {
    GraphLayer layer;
    LayerSpec spec;
    std::vector<Weight> weights;
    Constants constants = Constants::kNone;
    std::optional<Stored> stored = {};  // the constants, if they are a tensor of the file
    std::string node = "";              // name of the node, or of its output
  };
  std::string UniqueName(const std::string& wished);
  // The same for a layer of so many outputs, none of which has the name of another layer.
  std::string UniqueName(const std::string& wished, int outputs);
  absl::StatusOr<ImageValue> Append(const std::string& wished, Layer layer,
                                    const std::vector<ImageValue>& inputs,
                                    std::vector<Weight> weights, std::optional<Form> form);
  // nets/onnx/tokens/token_operators.cc
  bool IsIds(const onnx_schema::ValueInfo& input) const;
  absl::Status AddIds(const onnx_schema::ValueInfo& input);
  absl::Status AddImages(const onnx_schema::ValueInfo& input);
  absl::StatusOr<Shape> ImageShape(const onnx_schema::ValueInfo& input, bool channels_last);
  // Whether all that reads the images makes the last of their axes, the channels, the second one.
  bool HasChannelsLast(const onnx_schema::ValueInfo& input) const;
  absl::StatusOr<ImageValue> Output() const;
  // nets/onnx/predictions.cc. The output without what the loss computes itself. Errors:
  // UNIMPLEMENTED if the output is part of a formula, such as a GELU's, and no polynomial.
  absl::StatusOr<ImageValue> Predictions();
  absl::StatusOr<ImageValue> AsScores(const ImageValue& output);
  // Ends the network with the loss of these predictions.
  absl::Status AddLoss(const ImageValue& predictions, Graph& network) const;
  std::vector<bool> Needed(const ImageValue& output) const;
  // The number of needed layers that read each, with the loss.
  std::vector<int64_t> ReaderCounts(const ImageValue& predictions) const;
  // Makes layers with constants a part of the layers before them, which nothing else reads. A
  // reader reads those instead, and so may the loss.
  absl::Status JoinConstants(ImageValue& predictions);
  // Whether the draft has become a part of `before`.
  absl::StatusOr<bool> Join(Draft& before, Draft& draft);
  // The same, of the ScaleShift of constants before it, and of a norm.
  absl::StatusOr<bool> JoinScale(Draft& before, Draft& draft);
  static bool JoinNorm(Draft& before, Draft& draft);
  absl::StatusOr<NamedValues> ReadWeights(const std::vector<bool>& needed);
  absl::StatusOr<std::vector<float>> ReadValues(const Weight& weight);
  // Lets layers share the parameters that their nodes do. There is a notice for each set of nodes
  // that share something else, such as running statistics, or a matrix that one of them transposes.
  void ShareWeights(const std::vector<bool>& needed, OnnxModel& model) const;
  // Whether both weights are parameters of the same values and shape.
  static bool IsSameParam(const Draft& draft, const Weight& weight, const Draft& other,
                          const Weight& weight_of_other);

  const onnx_schema::Graph& graph_;
  const TensorReader& reader_;
  const OnnxOptions& options_;
  FileTraits traits_;
  int64_t file_batch_ = 0;
  int64_t batch_ = 0;  // of the network
  ConstantBudget constants_;
  std::vector<Draft> drafts_;                              // the input is the first
  absl::flat_hash_map<std::string, size_t> draft_of_;      // by output's name
  absl::flat_hash_map<std::string, int64_t> name_counts_;  // names of layers that were asked for
  absl::flat_hash_map<std::string, Value> values_;
  absl::flat_hash_map<std::string, int64_t> readers_;
  absl::flat_hash_map<std::string, int64_t> read_;  // how often nodes have read a value
};

}  // namespace neap::nets
