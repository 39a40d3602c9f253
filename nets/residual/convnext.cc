#include "neap/nets/residual/convnext.h"

#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/norm/layer_norm.h"
#include "neap/layers/pooling.h"
#include "neap/layers/scale_shift.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/nets/initial_values.h"

namespace neap::nets {
namespace {

constexpr LayerNorm kNorm = {.epsilon = 1e-6F};
constexpr ScaleShift kLayerScale = {.scale = 1e-6F, .learns_scale = true};
constexpr int64_t kBlockExpansion = 4;  // the inner channels of a block are so many times its own

// torch.nn.Linear of each position.
std::string AddLinear(Graph& net, const std::string& name, const std::string& x, int64_t in,
                      int64_t out) {
  net.Add(name, Convolution{.out_channels = out}, {x});
  net.StoreAs(name + ".weight", {.shape = {out, in}});
  return name;
}

// x plus a depthwise 7x7 convolution, a norm, and two linear layers with a GELU between them.
std::string AddBlock(Graph& net, const std::string& name, const std::string& x, int64_t channels,
                     float stochastic_depth) {
  const Convolution depthwise = {
      .out_channels = channels, .kernel = 7, .padding = 3, .groups = channels};
  std::string y = net.Add(name + ".block.0", depthwise, {x});
  y = net.Add(name + ".block.2", kNorm, {y});
  const int64_t inner = kBlockExpansion * channels;
  y = AddLinear(net, name + ".block.3", y, channels, inner);
  y = net.Add(name + ".block.4", Gelu{}, {y});
  y = AddLinear(net, name + ".block.5", y, inner, channels);
  y = net.Add(name, kLayerScale, {y});
  if (stochastic_depth > 0)
    y = net.Add(name + ".stochastic_depth", StochasticDepth{.rate = stochastic_depth}, {y});
  return net.Add(name + ".add", Add{}, {y, x});
}

}  // namespace

Graph ConvNeXt(const ConvNeXtOptions& options) {
  const ConvNeXtVariant& variant = options.variant;
  Graph net({.name = std::string(variant.name),
             .batch = options.batch,
             .dtype = options.dtype,
             .layout = options.layout});
  std::string x = net.Input({options.channels, options.image, options.image});
  const Convolution stem = {.out_channels = variant.channels[0], .kernel = 4, .stride = 4};
  x = net.Add("features.0.0", stem, {x});
  x = net.Add("features.0.1", kNorm, {x});
  const auto last = static_cast<float>(
      std::accumulate(variant.blocks.begin(), variant.blocks.end(), int64_t{-1}));
  float number = 0;  // of the block in the network
  for (size_t stage = 0; stage < variant.blocks.size(); ++stage) {
    if (stage > 0) {
      const std::string name = absl::StrCat("features.", 2 * stage);
      x = net.Add(name + ".0", kNorm, {x});
      x = net.Add(name + ".1",
                  Convolution{.out_channels = variant.channels[stage], .kernel = 2, .stride = 2},
                  {x});
    }
    for (int64_t i = 0; i < variant.blocks[stage]; ++i, ++number) {
      x = AddBlock(net, absl::StrCat("features.", 2 * stage + 1, ".", i), x,
                   variant.channels[stage], variant.stochastic_depth * number / last);
    }
  }
  x = net.Add("avgpool", GlobalAveragePool{}, {x});
  x = net.Add("classifier.0", kNorm, {x});
  x = net.Add("classifier.2", FullyConnected{.out_features = options.classes}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
  // trunc_normal_, which cuts the distribution at -2 and 2.
  constexpr InitialWeights kNormal002 = {
      .weight = InitialWeights::Rule::kNormal, .scale = 0.02F, .zero_bias = true};
  return WithInitialValues(net, {.convolution = kNormal002, .linear = kNormal002});
}

}  // namespace neap::nets
