// Parts that the networks for mobile devices have in common, with the names of torchvision's
// modules: units of a convolution, batch norm and an activation, squeeze and excitation, and
// inverted residual blocks of them.
//
// An inverted residual block (Sandler et al., 2018) is wide inside: a 1x1 convolution expands its
// input, a depthwise one filters every map by itself, and another 1x1 convolution projects the
// result back. The wide maps take most of the memory.
//
//   MobileTrunk trunk(net, {}, net.Input({3, 224, 224}), 3);
//   trunk.AddUnit("features.0", UnitConvolution(3, 32, 2), Silu{});
//   trunk.AddBlock("features.1.0", {.kernel = 3, .expanded = 32, .out_channels = 16,
//                                   .activation = Silu{}});
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "neap/core/graph/graph.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"

namespace neap::nets {

// The multiple of 8 nearest to `channels`, but at least 8, and at least 90 % of it: torchvision's
// _make_divisible.
int64_t MultipleOf8(double channels);

// A convolution of odd kernel size without bias, whose output has the size of its input divided by
// the stride.
Convolution UnitConvolution(int64_t kernel, int64_t out_channels, int64_t stride = 1,
                            int64_t groups = 1);

// Weights for the channels of a tensor, each between 0 and 1, from its mean values: a 1x1
// convolution to `channels`, an activation, a convolution back, and a gate (Hu et al., 2018).
struct SqueezeExcitation {
  int64_t channels = 0;
  Layer activation = Relu{};
  Layer gate = Sigmoid{};
};

struct InvertedResidual {
  int64_t kernel = 3;  // of the depthwise convolution
  int64_t stride = 1;
  int64_t expanded = 0;  // channels of the depthwise convolution; those of the input: no expansion
  int64_t out_channels = 0;
  Layer activation = Relu{};
  std::optional<SqueezeExcitation> squeeze = {};  // behind the depthwise convolution
};

// A chain of such parts.
class MobileTrunk {
 public:
  // `x` has `channels` channels. `norm` is every unit's batch norm.
  MobileTrunk(Graph& net, const BatchNorm& norm, std::string x, int64_t channels);

  const std::string& output() const { return x_; }
  int64_t channels() const { return channels_; }

  // NAME.0, .1 and .2, which is the activation, if any.
  void AddUnit(const std::string& name, const Convolution& convolution,
               const std::optional<Layer>& activation);
  // The convolution and its batch norm, without an activation.
  void AddLinear(const std::string& convolution_name, const std::string& norm_name,
                 const Convolution& convolution);
  // NAME.avgpool, .fc1, .activation, .fc2, .scale_activation and .mul.
  void AddSqueezeExcitation(const std::string& name, const SqueezeExcitation& squeeze);
  // NAME.block.0, .1, ... and, if input and output have one shape, their sum NAME.add.
  void AddBlock(const std::string& name, const InvertedResidual& block);
  void AddActivation(const std::string& name, const Layer& activation);
  // NAME: the sum of the output and an earlier one.
  void AddShortcut(const std::string& name, const std::string& from);

 private:
  Graph& net_;
  BatchNorm norm_;
  std::string x_;
  int64_t channels_;
};

}  // namespace neap::nets
