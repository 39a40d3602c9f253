#include "tests/core/run/gated_net.h"

#include <string>

#include "neap/layers/activation.h"
#include "neap/layers/channel_slice.h"
#include "neap/layers/channel_split.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/multiply.h"
#include "neap/layers/softmax_cross_entropy.h"

namespace neap::testing {
namespace {

constexpr int64_t kHalf = 4;  // channels

// The first or the second half of the channels of `x`, which a split has halved if there is one.
std::string HalfOf(Graph& net, const std::string& block, const std::string& x, int half,
                   Halving halving) {
  if (halving == Halving::kSplit) return OutputName(block + ".halves", half);
  return net.Add(block + (half == 0 ? ".first" : ".second"),
                 ChannelSlice{.first = half * kHalf, .count = kHalf}, {x});
}

std::string AddBlock(Graph& net, const std::string& block, std::string x,
                     const GatedOptions& options) {
  const Convolution conv = {.out_channels = 2 * kHalf, .kernel = 3, .padding = 1};
  x = net.Add(block + ".conv", conv, {x});
  if (options.halving == Halving::kSplit)
    net.Add(block + ".halves", ChannelSplit{.channels = {kHalf, kHalf}}, {x});
  const std::string second = HalfOf(net, block, x, 1, options.halving);
  if (!options.gates) return second;
  const std::string first = HalfOf(net, block, x, 0, options.halving);
  const std::string gate = net.Add(block + ".gate", Sigmoid{}, {second});
  return net.Add(block + ".product", Multiply{}, {first, gate});
}

}  // namespace

Graph GatedNet(const GatedOptions& options) {
  Graph net(
      {.name = "gated", .batch = options.batch, .dtype = options.dtype, .layout = options.layout});
  std::string x = AddBlock(net, "a", net.Input({3, 8, 8}), options);
  if (options.second_block) x = AddBlock(net, "b", x, options);
  net.Loss(net.Add("fc", FullyConnected{.out_features = 4}, {x}), SoftmaxCrossEntropy{});
  return net;
}

}  // namespace neap::testing
