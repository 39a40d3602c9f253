// The examples in the headers of core/graph/, which must compile. See scripts/check_examples.py.
#include <string>

#include "neap/core/base/status_macros.h"
#include "neap/core/graph/connect.h"
#include "neap/core/graph/graph.h"
#include "neap/core/graph/label_grid.h"
#include "neap/core/graph/sizes.h"
#include "neap/core/graph/with_options.h"
#include "neap/layers/activation.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/channel_split.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/layers/target_loss.h"
#include "neap/layers/tokens/embedding.h"
#include "neap/layers/tokens/linear_cross_entropy.h"
#include "neap/layers/tokens/position_embedding.h"

namespace neap::header_examples::graph {

// core/graph/graph.h
void StateGraph() {
  Graph net({.name = "mlp", .batch = 64});
  std::string x = net.Input({1, 28, 28});
  x = net.Add("fc1", FullyConnected{.out_features = 100}, {x});
  x = net.Add("relu1", Relu{}, {x});
  x = net.Add("fc2", FullyConnected{.out_features = 10}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
}

// core/graph/graph.h
void StateSeveralInputs(Graph& net) {
  net.Input("image", {3, 64, 64});
  net.Input("species", {}, DType::kInt32);
  net.Input("age", {1, 1, 1}, DType::kFp32);
  net.Add("logits", FullyConnected{.out_features = 10}, {"image"});
  net.Add("estimate", FullyConnected{.out_features = 1}, {"image"});
  net.Loss("species_loss", SoftmaxCrossEntropy{}, {"logits", "species"});
  net.Loss("age_loss", MeanSquaredError{.weight = 0.1F}, {"estimate", "age"});
  net.Output("logits");
}

// core/graph/graph.h
void ReadOutputs(Graph& net, const std::string& x) {
  net.Add("halves", ChannelSplit{.channels = {16, 16}}, {x});
  net.Add("sum", Add{}, {"halves", OutputName("halves", 1)});  // "halves:1"
}

// core/graph/graph.h
void GiveGradients(Graph& net) { net.OutputWithGradient("logits"); }

// core/graph/label_grid.h
void FindLabels() {
  LabelGridOf({8, 5, 16, 16}, {8, 64, 32})->stride;  // {1, 4, 2}: 1, of H and of W
}

// core/graph/connect.h
absl::Status FindInputs(const Graph& graph) {
  ASSIGN_OR_RETURN(const Connections connections, Connect(graph));
  const auto& read = connections.inputs[2];  // by graph.layers()[2]
  return absl::OkStatus();
}

// core/graph/sizes.h
absl::Status Smaller(const Graph& net) {
  ASSIGN_OR_RETURN(const Graph small, WithSize(net, {.extents = {160, 160}, .batch = 64}));
  return absl::OkStatus();
}

// core/graph/with_options.h
void DoubleBatch(const Graph& net) {
  GraphOptions options = net.options();
  options.batch = 2 * options.batch;
  const Graph twice = WithOptions(net, options);
}

// docs/own-network.md
neap::Graph TaggerNet() {
  neap::Graph net({.name = "tagger", .batch = 16, .layout = neap::Layout::kChannelsLast});
  std::string x = net.Input({16, 400});  // channels, positions
  x = net.Add("conv1", neap::Convolution{.out_channels = 32, .kernel = 5, .padding = 2}, {x});
  x = net.Add("bn1", neap::BatchNorm{}, {x});
  x = net.Add("relu1", neap::Relu{}, {x});
  x = net.Add("tags", neap::Convolution{.out_channels = 3}, {x});  // linear, at each position
  net.PixelLoss(x, neap::SoftmaxCrossEntropy{}, {400});
  return net;
}

// docs/own-network.md
neap::Graph AttentionNet() {
  neap::Graph net({.name = "attention", .batch = 16, .layout = neap::Layout::kChannelsLast});
  const std::string x = net.Input({64, 128});  // channels, positions
  std::string y = net.Add("norm1", neap::LayerNorm{}, {x});
  y = net.Add("qkv", neap::Convolution{.out_channels = 3 * 64}, {y});  // linear, at each position
  y = net.Add("attention", neap::Attention{.heads = 4, .causal = true}, {y});
  y = net.Add("projection", neap::Convolution{.out_channels = 64}, {y});
  y = net.Add("add1", neap::Add{}, {x, y});
  net.PixelLoss(net.Add("tags", neap::Convolution{.out_channels = 3}, {y}),
                neap::SoftmaxCrossEntropy{}, {128});
  return net;
}

// docs/own-network.md
neap::Graph TokenNet() {
  neap::Graph net({.name = "tokens", .batch = 8, .layout = neap::Layout::kChannelsLast});
  net.Input("ids", {256}, neap::DType::kInt32);
  net.Input("next", {256}, neap::DType::kInt32);
  std::string x = net.Add("wte", neap::Embedding{.vocabulary = 50257, .channels = 768}, {"ids"});
  x = net.Add("wpe", neap::PositionEmbedding{}, {x});
  std::string y = net.Add("ln1", neap::LayerNorm{}, {x});
  y = net.Add("up", neap::Convolution{.out_channels = 3072}, {y});  // linear, at each position
  y = net.Add("gelu", neap::Gelu{}, {y});
  y = net.Add("down", neap::Convolution{.out_channels = 768}, {y});
  x = net.Add("add", neap::Add{}, {x, y});
  x = net.Add("ln2", neap::LayerNorm{}, {x});
  net.Loss("loss", neap::LinearCrossEntropy{.classes = 50257}, {x, "next"});
  net.Share("loss.weight", "wte.weight");
  return net;
}

// docs/own-network.md
void ReadTargets(neap::Graph& net, const std::string& x) {
  net.TargetLoss(x, neap::MeanSquaredError{}, {2, 32, 32});
}

// docs/own-network.md
void AddAuxiliaryLoss(neap::Graph& net, const std::string& x, const std::string& aux) {
  net.Loss(x, neap::SoftmaxCrossEntropy{});
  net.AuxiliaryLoss(aux, neap::SoftmaxCrossEntropy{.weight = 0.3F});
}

}  // namespace neap::header_examples::graph
