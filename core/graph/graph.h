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
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/base/ids.h"
#include "neap/core/base/tensor.h"
#include "neap/core/step/layer.h"

namespace neap {

struct GraphOptions {
  std::string name = "network";
  int64_t batch = 1;
  DType dtype = DType::kFp32;  // of images, activations, their gradients, and weights in kernels
  Layout layout = Layout::kNchw;
  // Layers that can run in one pass over memory become one (core/program/fuse.h). The results have
  // the same bits without it.
  bool fusion = true;
  friend bool operator==(const GraphOptions&, const GraphOptions&) = default;
};

// Whether training multiplies the loss, and with it every gradient, by a scale: fp16
// (core/step/loss_scale.h).
bool ScalesLoss(const GraphOptions& options);

// The layer's part in the input and output of an iteration. A network has exactly one layer of each
// role but kInner and kAuxiliaryLoss, of which it has any number.
enum class LayerRole : uint8_t {
  kInner,
  kImages,  // the batch's images
  kLabels,  // the batch's labels or targets
  kLoss,  // its state 0 is the iteration's result: fp32 {mean loss, number of correct predictions}
  kAuxiliaryLoss,  // adds to that state, in training
};
constexpr bool IsLoss(LayerRole role) {
  return role == LayerRole::kLoss || role == LayerRole::kAuxiliaryLoss;
}

struct GraphLayer {
  std::string name;
  Layer layer;
  std::vector<std::string> inputs;  // names
  LayerRole role = LayerRole::kInner;
};

class Graph {
 public:
  explicit Graph(GraphOptions options) : options_(std::move(options)) {}

  // The images {batch, c, h, w}, a layer called "input"; `chw` is {c, h, w}.
  std::string Input(Shape chw);
  // Adds any layer. Its one output has the layer's name, which is returned. Nothing is checked
  // here.
  std::string Add(std::string name, Layer layer, std::vector<std::string> inputs);
  // Adds a layer of any role, for building a graph from the layers() of another.
  std::string Add(GraphLayer layer);
  // Ends the network with `loss`, a layer such as SoftmaxCrossEntropy that reads `predictions` and
  // the layer "labels", which is added with it. Returns "loss".
  std::string Loss(std::string predictions, Layer loss);
  // Like Loss(), with a label for each pixel of predictions {N, C, height, width}.
  std::string PixelLoss(std::string predictions, Layer loss, int64_t height, int64_t width);
  // Like Loss(), with a layer such as MeanSquaredError that compares predictions {N, C, H, W} with
  // a target for each element, of the layer "targets"; `chw` is {C, H, W}.
  std::string TargetLoss(std::string predictions, Layer loss, Shape chw);
  // Adds an auxiliary loss, such as SoftmaxCrossEntropy{.auxiliary_weight = 0.3F}. It compares
  // other predictions of the same shape with the labels or targets of the main loss, which has been
  // added before. Training minimises, and reports, the main loss plus the weighted auxiliary ones.
  // Evaluation and prediction leave out the auxiliary losses and the layers that only they need.
  // Returns the layer's name, PREDICTIONS.loss.
  std::string AuxiliaryLoss(const std::string& predictions, Layer loss);

  const GraphOptions& options() const { return options_; }
  const std::vector<GraphLayer>& layers() const { return layers_; }

 private:
  GraphOptions options_;
  std::vector<GraphLayer> layers_;
};

// A layer of a checked graph: its inputs are ids, and its spec is known.
struct ResolvedLayer {
  LayerId id;  // position in ResolvedGraph::layers: execution order
  std::string name;
  Layer layer;
  std::vector<LayerId> inputs;
  LayerRole role = LayerRole::kInner;
  LayerSpec spec;
  // The layers by which the parameters and states are named (ParamSpec::owner); empty: this one.
  std::vector<std::string> owners = {};
  // Only auxiliary losses depend on it. Inference has its parameters and states, but no steps.
  bool training_only = false;
};
// The role of the layer's output in training: input, label or activation.
Role OutputRole(const ResolvedLayer& layer);

// A checked graph. Its layers are in execution order.
struct ResolvedGraph {
  GraphOptions options;
  std::vector<ResolvedLayer> layers;
};

// Orders the layers (core/graph/order.h), infers shapes and checks everything.
// Errors: INVALID_ARGUMENT naming the layer: unknown input, duplicate name, cycle, unused output
// (other than a loss), shapes that do not fit, tensors with no elements, a layer with neither
// inputs nor a forward step, no input, no main loss or several, a loss that does not keep its
// result or, if the loss is scaled, does not read the scale; an auxiliary loss that does not add to
// the result or has tensors of its own, or a main loss that cannot add to it.
absl::StatusOr<ResolvedGraph> Resolve(const Graph& graph, Mode mode);

}  // namespace neap
