#include "neap/nets/residual/regnet.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/nets/initial_values.h"
#include "neap/nets/mobile/inverted_residual.h"

namespace neap::nets {
namespace {

constexpr int64_t kStem = 32;
constexpr int64_t kSqueezedPart = 4;  // the squeezed channels are this part of the block's input's

// 1x1, grouped 3x3, squeeze and excitation, 1x1; a shortcut, projected if the block changes the
// shape; their sum and a ReLU.
void AddYBlock(MobileTrunk& trunk, const std::string& name, int64_t channels, int64_t stride,
               int64_t group_width) {
  std::string shortcut = trunk.output();
  const int64_t in_channels = trunk.channels();
  if (stride != 1 || in_channels != channels) {
    MobileTrunk projected = trunk;
    projected.AddUnit(name + ".proj", UnitConvolution(1, channels, stride), std::nullopt);
    shortcut = projected.output();
  }
  trunk.AddUnit(name + ".f.a", UnitConvolution(1, channels), Relu{});
  trunk.AddUnit(name + ".f.b", UnitConvolution(3, channels, stride, channels / group_width),
                Relu{});
  trunk.AddSqueezeExcitation(name + ".f.se", {.channels = in_channels / kSqueezedPart});
  trunk.AddUnit(name + ".f.c", UnitConvolution(1, channels), std::nullopt);
  trunk.AddShortcut(name + ".add", shortcut);
  trunk.AddActivation(name + ".activation", Relu{});
}

}  // namespace

Graph RegNetY(const RegNetOptions& options) {
  Graph net({.name = std::string(options.variant.name),
             .batch = options.batch,
             .dtype = options.dtype,
             .layout = options.layout});
  const std::string x = net.Input({options.channels, options.image, options.image});
  MobileTrunk trunk(net, {}, x, options.channels);
  trunk.AddUnit("stem", UnitConvolution(3, kStem, 2), Relu{});
  const RegNetVariant& variant = options.variant;
  for (size_t stage = 0; stage < variant.blocks.size(); ++stage) {
    const size_t number = stage + 1;
    for (int64_t i = 0; i < variant.blocks[stage]; ++i) {
      AddYBlock(trunk, absl::StrCat("trunk_output.block", number, ".block", number, "-", i),
                variant.channels[stage], i == 0 ? 2 : 1, variant.group_width);
    }
  }
  std::string y = net.Add("avgpool", GlobalAveragePool{}, {trunk.output()});
  y = net.Add("fc", FullyConnected{.out_features = options.classes}, {y});
  net.Loss(y, SoftmaxCrossEntropy{});
  const InitialWeights convolution = {.weight = InitialWeights::Rule::kHeFanOut};
  return WithInitialValues(net, {.convolution = convolution, .linear = kNormal001});
}

}  // namespace neap::nets
