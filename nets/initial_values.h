// The rules by which the weights of a network begin, by kind of layer, as torchvision's networks
// set them in a loop over their modules. docs/initial-values.md has them all.
//
//   return WithInitialValues(net, {.convolution = kHeFanOut, .linear = kNormal001});
#pragma once

#include <cstdint>
#include <optional>

#include "neap/core/graph/graph.h"
#include "neap/layers/initial_weights.h"

namespace neap::nets {

struct InitRules {
  std::optional<InitialWeights> convolution = {};  // nullopt: as the layer has it
  std::optional<InitialWeights> linear = {};
};

// kaiming_normal_(mode="fan_out"); biases begin at 0.
inline constexpr InitialWeights kHeFanOut = {.weight = InitialWeights::Rule::kHeFanOut,
                                             .zero_bias = true};
// normal_(0, 0.01); biases begin at 0.
inline constexpr InitialWeights kNormal001 = {
    .weight = InitialWeights::Rule::kNormal, .scale = 0.01F, .zero_bias = true};

// kaiming_uniform_(nonlinearity="relu") and xavier_uniform_, of a weight with these fans
// (layers/initial_weights.h); biases begin at 0.
InitialWeights HeUniform(int64_t fan_in);
InitialWeights XavierUniform(int64_t fan_in, int64_t fan_out);

// The network, with these rules in those of its Convolutions and FullyConnected layers that have
// the default.
Graph WithInitialValues(const Graph& net, const InitRules& rules);

}  // namespace neap::nets
