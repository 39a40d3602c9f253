// The network as the user states it: named layers, and the layers whose outputs each of them reads.
// It has no memory, order or gradients yet (core/program/program.h adds them).
//
// Layers refer to each other by name, so a graph can be stated in any order. The mistakes that this
// makes possible (an unknown name, a duplicate name, a cycle) are found by Resolve(), which names
// the layer.
//
//   Graph net({.name = "mlp", .batch = 64});
//   std::string x = net.Input({1, 28, 28});
//   x = net.Add("fc1", FullyConnected{.out_features = 100}, {x});
//   x = net.Add("relu1", Relu{}, {x});
//   x = net.Add("fc2", FullyConnected{.out_features = 10}, {x});
//   net.Loss(x, SoftmaxCrossEntropy{});
//
// A network of several inputs, outputs and losses names them:
//
//   net.Input("image", {3, 64, 64});
//   net.Input("species", {}, DType::kInt32);
//   net.Input("age", {1, 1, 1}, DType::kFp32);
//   net.Add("logits", FullyConnected{.out_features = 10}, {"image"});
//   net.Add("estimate", FullyConnected{.out_features = 1}, {"image"});
//   net.Loss("species_loss", SoftmaxCrossEntropy{}, {"logits", "species"});
//   net.Loss("age_loss", MeanSquaredError{.weight = 0.1F}, {"estimate", "age"});
//   net.Output("logits");
//
// A layer of several outputs, such as ChannelSplit, is named in inputs and outputs for its first
// one:
//
//   net.Add("halves", ChannelSplit{.channels = {16, 16}}, {x});
//   net.Add("sum", Add{}, {"halves", OutputName("halves", 1)});  // "halves:1"
//
// The caller may compute a loss of its own, and give its gradient with respect to outputs
// (Session::Forward(), Session::Backward()); such a network needs no other loss:
//
//   net.OutputWithGradient("logits");
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/base/ids.h"
#include "neap/core/base/tensor.h"
#include "neap/core/step/layer.h"

namespace neap {

// What files of weights for a network have otherwise when other programs write them.
struct OtherFiles {
  std::string prefix = {};                // with which names of tensors may begin: "transformer."
  std::vector<std::string> ignored = {};  // ends of the names of tensors that are no weights
  friend bool operator==(const OtherFiles&, const OtherFiles&) = default;
};

struct GraphOptions {
  std::string name = "network";
  int64_t batch = 1;
  DType dtype = DType::kFp32;  // of inputs, activations, their gradients, and weights in kernels
  Layout layout = Layout::kChannelsFirst;
  // Layers that can run in one pass over memory become one (core/program/fuse.h). The results have
  // the same bits without it.
  bool fusion = true;
  OtherFiles other_files = {};  // which the network's weights are read from, too
  friend bool operator==(const GraphOptions&, const GraphOptions&) = default;
};

// Whether training multiplies the loss, and with it every gradient, by a scale: fp16
// (core/step/loss_scale.h).
bool ScalesLoss(const GraphOptions& options);
// The context in which a layer of such a network with these inputs is specified.
LayerContext ContextIn(const GraphOptions& options, Mode mode, std::vector<TensorSpec> inputs);

// The layer's part in the input and output of an iteration.
enum class LayerRole : uint8_t {
  kInner,
  kFeed,           // its output is what the caller gives for every iteration
  kLoss,           // its state 0 is a result: fp32 {mean loss, number of correct predictions}
  kAuxiliaryLoss,  // a loss of training alone
  kCaller,         // of a resolved graph: core/graph/caller.h
};
constexpr bool IsLoss(LayerRole role) {
  return role == LayerRole::kLoss || role == LayerRole::kAuxiliaryLoss;
}

// The name of a layer's output in inputs and outputs: that of the layer for output 0, and
// "LAYER:INDEX" for the others.
std::string OutputName(std::string_view layer, int index);

struct GraphLayer {
  std::string name;
  Layer layer;
  std::vector<std::string> inputs;  // OutputName() of others
  LayerRole role = LayerRole::kInner;
  friend bool operator==(const GraphLayer&, const GraphLayer&) = default;
};

// What the caller gets of an iteration.
struct GraphOutput {
  std::string name;             // OutputName() of a layer's output
  bool takes_gradient = false;  // Graph::OutputWithGradient()
  friend bool operator==(const GraphOutput&, const GraphOutput&) = default;
};

// Two names of one parameter: "decoder.weight" is "encoder.weight".
struct SharedParam {
  std::string param, owner;
  friend bool operator==(const SharedParam&, const SharedParam&) = default;
};

// How files have a parameter.
struct StoredParam {
  std::string param;  // LAYER.weight
  FileForm form;
  friend bool operator==(const StoredParam&, const StoredParam&) = default;
};

// One of the sizes of the inputs that a network is trained with.
struct GraphSize {
  // Take the place of the spatial extents of the first feed, {height, width} of images, there and
  // in every feed that has the same, such as labels of pixels.
  std::vector<int64_t> extents;
  // 0: that of the network. kFillsBudget: the largest one that a session's first budget holds
  // without moving or rebuilding anything, or else 1 (Session::sizes() says which); not among
  // ranks.
  int64_t batch = 0;
  static constexpr int64_t kFillsBudget = -1;
  friend bool operator==(const GraphSize&, const GraphSize&) = default;
};

class Graph {
 public:
  explicit Graph(GraphOptions options) : options_(std::move(options)) {}
  // Without layers, for a graph that is made from those of `net`; its outputs, shared parameters,
  // their forms in files and sizes are the same.
  Graph(GraphOptions options, const Graph& net)
      : options_(std::move(options)),
        outputs_(net.outputs_),
        shared_(net.shared_),
        stored_(net.stored_),
        sizes_(net.sizes_) {}

  // The images {batch, c, h, w}, a feed called "input"; `chw` is {c, h, w}. Sequences are {c, t},
  // volumes {c, d, h, w}.
  std::string Input(Shape chw);
  // A feed: values that the caller gives for every iteration. `shape` is that of one example, and
  // the feed's is {batch, shape}. Without a type, it has the network's. Returns the name.
  std::string Input(std::string name, const Shape& shape, std::optional<DType> dtype = {});
  // Adds any layer. Its first output has the layer's name, which is returned. Nothing is checked
  // here.
  std::string Add(std::string name, Layer layer, std::vector<std::string> inputs);
  // Adds a layer of any role, for building a graph from the layers() of another.
  std::string Add(GraphLayer layer);
  // Adds a loss, a layer such as SoftmaxCrossEntropy{.weight = 0.5F} whose inputs are predictions
  // and a feed to compare them with. Training minimises the sum of all losses times their weights.
  // Returns the name.
  std::string Loss(std::string name, Layer loss, std::vector<std::string> inputs);
  // Makes an output of a layer, of this OutputName(), a result of every iteration.
  void Output(std::string name) { outputs_.push_back({.name = std::move(name)}); }
  // The same for an output of which the caller computes a loss of its own. In training, an
  // iteration hands out all outputs after forward, and pauses until the caller gives the gradient
  // of what it minimises with respect to each of these (Session::Forward(), Session::Backward()).
  // Losses of the network add theirs. Such a network trains in one sub-batch; evaluation does not
  // pause.
  void OutputWithGradient(std::string name) {
    outputs_.push_back({.name = std::move(name), .takes_gradient = true});
  }
  // Makes a layer use the parameter of another instead of one of its own, of the same shape:
  // Share("decoder.weight", "encoder.weight"). It has one tensor, in files under the owner's name,
  // and its gradient is the sum of those of all layers that use it.
  void Share(std::string param, std::string owner) {
    shared_.push_back({std::move(param), std::move(owner)});
  }
  // Lets files of weights have a parameter as another program has it, by its own name, in another
  // shape, or transposed: StoreAs("wpe.weight", {.shape = {1024, 768}, .transposed = true}). A name
  // takes the place of LAYER.weight everywhere. Of a parameter that layers share, it is said of the
  // owner's.
  void StoreAs(std::string param, FileForm form) {
    stored_.push_back({std::move(param), std::move(form)});
  }
  // Makes a session train the network with these sizes, too. It plans all of them at the beginning,
  // in one arena, with as many sub-batches as the network itself, or one for each image of a
  // smaller batch; only kernels of the network itself are measured before. A step has the size of
  // the values that it is given (FeedValue::shape), and evaluation that of the network itself.
  // Among several ranks, all sizes have the network's batch. A graph that takes its place in
  // training (Session::SetTrainingGraph()) has no sizes.
  void Sizes(std::vector<GraphSize> sizes) { sizes_ = std::move(sizes); }
  // Ends the network with `loss`, a layer such as SoftmaxCrossEntropy that reads `predictions` and
  // the feed "labels", which is added with it. Returns "loss".
  std::string Loss(std::string predictions, Layer loss);
  // Like Loss(), with a label for each position of the predictions: {H, W} of images, {T} of
  // sequences, {D, H, W} of volumes.
  std::string PixelLoss(std::string predictions, Layer loss, const Shape& extents);
  // Like Loss(), with a layer such as MeanSquaredError that compares predictions {N, C, H, W} with
  // a target for each element, of the feed "targets"; `chw` is {C, H, W}, of sequences {C, T}, of
  // volumes {C, D, H, W}.
  std::string TargetLoss(std::string predictions, Layer loss, Shape chw);
  // Adds a loss of training alone, such as SoftmaxCrossEntropy{.weight = 0.3F}. It compares other
  // predictions of the same shape with what the loss that was added last reads; those of a loss of
  // labels may be coarser (core/graph/label_grid.h). Evaluation and prediction leave it out, and
  // the layers that only such losses need. Returns the layer's name, PREDICTIONS.loss.
  std::string AuxiliaryLoss(const std::string& predictions, Layer loss);

  const GraphOptions& options() const { return options_; }
  const std::vector<GraphLayer>& layers() const { return layers_; }
  const std::vector<GraphOutput>& outputs() const { return outputs_; }
  const std::vector<SharedParam>& shared() const { return shared_; }
  const std::vector<StoredParam>& stored() const { return stored_; }
  const std::vector<GraphSize>& sizes() const { return sizes_; }

  // Equal if the same is stated in the same order.
  friend bool operator==(const Graph&, const Graph&) = default;

 private:
  GraphOptions options_;
  std::vector<GraphOutput> outputs_;
  std::vector<SharedParam> shared_;
  std::vector<StoredParam> stored_;
  std::vector<GraphSize> sizes_;
  std::vector<GraphLayer> layers_;
};

// An output of a layer of a checked graph.
struct LayerOutput {
  LayerId layer;
  int index = 0;
  friend bool operator==(const LayerOutput&, const LayerOutput&) = default;
};

// An output that is a result of every iteration.
struct LayerResult {
  std::string name;  // of the result
  int output = 0;    // its index
  friend bool operator==(const LayerResult&, const LayerResult&) = default;
};

// A layer of a checked graph: its inputs are ids, and its spec is known.
struct ResolvedLayer {
  LayerId id;  // position in ResolvedGraph::layers: execution order
  std::string name;
  Layer layer;
  std::vector<LayerOutput> inputs;
  LayerRole role = LayerRole::kInner;
  LayerSpec spec;
  // The layers by which the parameters and states are named (ParamSpec::owner); empty: this one.
  std::vector<std::string> owners = {};
  // Those of its parameters that another layer owns, with the owner's name for them, and those that
  // have another name (FileForm::name), with that.
  std::vector<SharedParam> shared = {};
  std::vector<LayerResult> results = {};
  // A feed that losses compare predictions with, and nothing else reads.
  bool is_target = false;
  // Only auxiliary losses depend on it. Inference has its parameters and states, but no steps.
  bool training_only = false;
  // The layer whose random numbers it draws; empty: this one.
  std::string seed_name = {};
};
// The role of the layer's outputs in training: input, label or activation.
Role OutputRole(const ResolvedLayer& layer);
// The names of tensors: "conv1.weight", of a shared parameter its owner's, or the one that it has
// instead; "bn1.running_mean".
std::string ParamName(const ResolvedLayer& layer, const ParamSpec& param);
std::string StateName(const ResolvedLayer& layer, const StateSpec& state);

// A checked graph. Its layers are in execution order.
struct ResolvedGraph {
  GraphOptions options;
  std::vector<ResolvedLayer> layers;
  const ResolvedLayer& Producer(LayerOutput output) const { return layers[output.layer.index()]; }
  const TensorSpec& SpecOf(LayerOutput output) const {
    return Producer(output).spec.OutputSpec(output.index);
  }
  std::string NameOf(LayerOutput output) const;  // its OutputName()
  // The specs of the layer's inputs.
  std::vector<TensorSpec> InputSpecs(const ResolvedLayer& layer) const;
};

// By LayerId: whether the layer is a loss or the caller, or one of them takes a gradient of it.
std::vector<bool> LeadsToLoss(const ResolvedGraph& graph);

// Orders the layers (core/graph/order.h), infers shapes and checks everything. Errors:
// INVALID_ARGUMENT naming the layer: unknown input, duplicate name, cycle, a layer of which no
// output is read, and which is neither a loss nor an output, shapes that do not fit, tensors with
// no elements, a feed whose first extent is not the batch, a layer with neither inputs nor a
// forward step, a loss that does not keep its result or, if the loss is scaled, does not read the
// scale; an output that is not a layer, or is one of integers; a shared parameter that no layer
// has, is its own owner, or is of another shape than its owner's; a form in files of a parameter
// that no layer has or owns, with other values or a name that something has; no feed, neither a
// loss nor an output, and in training neither a loss nor an output whose gradient is given; an
// output whose gradient is given, but that no parameter precedes.
absl::StatusOr<ResolvedGraph> Resolve(const Graph& graph, Mode mode);

}  // namespace neap
