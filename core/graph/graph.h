// The network as the user states it: named layers and which layer's output each reads. No memory,
// no order, no gradients yet (core/program/program.h makes those).
//
// Layers refer to each other by name, so a graph can be stated in any order, and the mistakes that
// this makes possible (a name that no layer has, two of one name, a cycle) are found by Resolve(),
// each with the layer's name.
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
  DType dtype = DType::kFp32;
  Layout layout = Layout::kNchw;
  friend bool operator==(const GraphOptions&, const GraphOptions&) = default;
};

// Where an iteration meets the outside. A network has one layer of each kind but kInner.
enum class LayerRole : uint8_t {
  kInner,
  kImages,  // the batch's images
  kLabels,  // the batch's labels
  kLoss,    // its state 0 is the iteration's result: fp32 {mean loss, number of right predictions}
};

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
  // Any layer; its one output is known by its name, which is returned. Nothing is checked here.
  std::string Add(std::string name, Layer layer, std::vector<std::string> inputs);
  // A layer of any role: how a graph is stated again from another's layers().
  std::string Add(GraphLayer layer);
  // The end of the network: `loss`, a layer such as SoftmaxCrossEntropy that reads `predictions`
  // and the layer "labels", which is added with it. Returns "loss".
  std::string Loss(std::string predictions, Layer loss);
  // The same with a label for each pixel of predictions {N, C, height, width}.
  std::string PixelLoss(std::string predictions, Layer loss, int64_t height, int64_t width);

  const GraphOptions& options() const { return options_; }
  const std::vector<GraphLayer>& layers() const { return layers_; }

 private:
  GraphOptions options_;
  std::vector<GraphLayer> layers_;
};

// A graph found to be right: inputs as ids, the spec of every layer, in execution order.
struct ResolvedLayer {
  LayerId id;  // position in ResolvedGraph::layers: execution order
  std::string name;
  Layer layer;
  std::vector<LayerId> inputs;
  LayerRole role = LayerRole::kInner;
  LayerSpec spec;
};
// What the layer's output is in training: input, label or activation.
Role OutputRole(const ResolvedLayer& layer);

struct ResolvedGraph {
  GraphOptions options;
  std::vector<ResolvedLayer> layers;
};

// Orders the layers (core/graph/order.h), infers shapes and checks everything.
// Errors: INVALID_ARGUMENT naming the layer: unknown input, duplicate name, cycle, output nobody
// reads (other than a loss), shapes that do not fit, tensors with no elements, a layer with neither
// inputs nor a forward step, no input, no loss or several, a loss that does not keep its result.
absl::StatusOr<ResolvedGraph> Resolve(const Graph& graph, Mode mode);

}  // namespace neap
