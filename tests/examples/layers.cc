// The examples in the headers of layers, compiled and not run.
#include <string>

#include "neap/core/graph/graph.h"
#include "neap/layers/activation.h"
#include "neap/layers/attention/attention.h"
#include "neap/layers/convolution.h"
#include "neap/layers/dropout.h"
#include "neap/layers/initial_weights.h"
#include "neap/layers/join.h"
#include "neap/layers/multiply.h"
#include "neap/layers/norm/softmax.h"
#include "neap/layers/prelu.h"
#include "neap/layers/resize/resize.h"
#include "neap/layers/scale_shift.h"
#include "neap/layers/shape/permute.h"
#include "neap/layers/shape/reshape.h"
#include "neap/layers/shape/roll.h"
#include "neap/layers/shape/tile.h"
#include "neap/layers/shape/windows.h"
#include "neap/layers/steps/window_places.h"
#include "neap/layers/tokens/embedding.h"
#include "neap/layers/tokens/linear_cross_entropy.h"
#include "neap/layers/tokens/position_embedding.h"
#include "neap/layers/tokens/prepend_token.h"

namespace neap::examples {

// layers/initial_weights.h
Convolution BeginsByHe() {
  Convolution conv = {.out_channels = 64, .kernel = 7};
  conv.init = {.weight = InitialWeights::Rule::kHeFanOut, .zero_bias = true};
  return conv;
}

// docs/initial-values.md
std::string AddByHe(Graph& net, std::string x) {
  x = net.Add("conv1",
              neap::Convolution{.out_channels = 64,
                                .init = {.weight = neap::InitialWeights::Rule::kHeFanOut}},
              {x});
  return x;
}

// layers/attention/attention.h
void AddAttention(Graph& net, std::string x) {
  const std::string qkv = net.Add("qkv", Convolution{.out_channels = 3 * 768}, {x});
  x = net.Add("attention", Attention{.heads = 12, .causal = true}, {qkv});
}

// layers/multiply.h
void AddMultiply(Graph& net, std::string x, const std::string& squeezed) {
  const std::string weights = net.Add("scale", Sigmoid{}, {squeezed});  // N x C x 1 x 1
  x = net.Add("mul", Multiply{}, {x, weights});
}

// layers/dropout.h
void AddResidual(Graph& net, std::string x, const std::string& shortcut) {
  x = net.Add("drop", StochasticDepth{.rate = 0.2F}, {x});
  x = net.Add("add", Add{}, {x, shortcut});
}

// layers/norm/softmax.h
void AddAttention(Graph& net, const std::string& scores) {
  std::string weights;
  weights = net.Add("attention", Softmax{.axis = 3}, {scores});  // over the last axis of images
}

// layers/shape/reshape.h
void AddReshape(Graph& net, std::string x) {
  x = net.Add("tokens", Reshape{.to = {0, -1}}, {x});  // {N, C, H, W} -> {N, C, H W}
}

// layers/shape/permute.h
void AddPermute(Graph& net, std::string x) {
  x = net.Add("transposed", Permute{.axes = {2, 1}}, {x});  // {N, C, T} -> {N, T, C}
}

// layers/shape/tile.h
void AddTile(Graph& net, std::string x) {
  x = net.Add("wide", Tile{.repeats = {1, 2}}, {x});  // {N, C, H, W} -> {N, C, H, 2 W}
}

// layers/shape/windows.h
void AddWindows(Graph& net, std::string x) {
  x = net.Add("rolled", Roll{.shift = -3}, {x});
  x = net.Add("windows", WindowPartition{.window = 7}, {x});  // {N, C, 64, 49} of 56 x 56
  const WindowBias bias = {.window = 7, .size = 56, .shift = 3};
  x = net.Add("attention", Attention{.heads = 3, .axes = 1, .window_bias = bias}, {x});
  x = net.Add("merged", WindowMerge{.window = 7, .size = 56}, {x});
}

// layers/steps/window_places.h
float WindowBiasOf(const WindowPlaces& places, int window, int i, int j, const float* table) {
  const WindowPlace query = places.At(i), key = places.At(j);
  const int row = query.row - key.row + places.center();  // of the table
  const bool is_masked = ((query.wrapped ^ key.wrapped) & places.CutAxes(window)) != 0;
  return table[row] + (is_masked ? kOtherRegion : 0);
}

// layers/scale_shift.h
void AddLayerScale(Graph& net, std::string x) {
  x = net.Add("block", ScaleShift{.scale = 1e-6F, .learns_scale = true}, {x});  // ConvNeXt
}

// layers/prelu.h
void AddPrelu(Graph& net, std::string x) {
  x = net.Add("prelu", Prelu{.slopes = 64}, {x});  // x has 64 channels
}

// layers/tokens/embedding.h
std::string AddEmbedding(Graph& net, std::string x) {
  net.Input("ids", {1024}, DType::kInt32);
  x = net.Add("wte", Embedding{.vocabulary = 50257, .channels = 768}, {"ids"});
  return x;
}

// layers/tokens/position_embedding.h
std::string AddPositions(Graph& net, std::string x) {
  x = net.Add("wpe", PositionEmbedding{}, {x});
  return x;
}

// layers/tokens/prepend_token.h
std::string AddClassToken(Graph& net, std::string x) {
  x = net.Add("class_token", PrependToken{}, {x});
  return x;
}

// layers/tokens/linear_cross_entropy.h
void AddTokenLoss(Graph& net, const std::string& x) {
  net.Loss("loss", LinearCrossEntropy{.classes = 50257}, {x, "next"});
  net.Share("loss.weight", "wte.weight");
}

// docs/own-network.md
std::string Upsample(Graph& net, std::string x) {
  x = net.Add("up", neap::Resize{.scales = {2}, .mode = neap::Resize::Mode::kLinear}, {x});
  return x;
}

// layers/resize/resize.h
void AddResize(Graph& net, const std::string& x) {
  net.Add("up", Resize{.scales = {2}, .mode = Resize::Mode::kLinear}, {x});
}

}  // namespace neap::examples
