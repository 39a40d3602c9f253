// How the weight and the bias of a linear layer begin. docs/initial-values.md has the rule of every
// network.
//
// By default, they begin as those of torch.nn.Conv2d, ConvTranspose2d and Linear. Most of
// torchvision's networks replace that by rules of their own.
//
//   Convolution conv = {.out_channels = 64, .kernel = 7};
//   conv.init = {.weight = InitialWeights::Rule::kHeFanOut, .zero_bias = true};
//
// The fans are PyTorch's: fan_in is the number of elements of the weight for one element of its
// first axis, fan_out that for one element of its second axis. A group thus has the fan_out of the
// whole convolution.
#pragma once

#include <cstdint>

#include "neap/core/step/layer_spec.h"

namespace neap {

struct InitialWeights {
  enum class Rule : uint8_t {
    kUniformFanIn,  // U(-a, a) with a = 1 / sqrt(fan_in): kaiming_uniform_ with PyTorch's sqrt(5)
    kHeFanIn,       // N(0, 2 / fan_in): kaiming_normal_
    kHeFanOut,      // N(0, 2 / fan_out): kaiming_normal_ with mode="fan_out"
    kNormal,        // N(0, scale^2)
    kUniform,       // U(-scale, scale)
  };
  Rule weight = Rule::kUniformFanIn;
  float scale = 0;
  bool zero_bias = false;  // else that of Rule::kUniformFanIn, whatever the weight's rule
  friend bool operator==(const InitialWeights&, const InitialWeights&) = default;
};

// The initialiser of a weight of this shape. Its first two axes are {out, in}, or for a transposed
// convolution, whose fans are computed in the same way, {in, out}.
Init WeightInit(const InitialWeights& rule, const Shape& weight);
// The initialiser of the bias beside that weight.
Init BiasInit(const InitialWeights& rule, const Shape& weight);

}  // namespace neap
