#include "neap/nets/regnet.h"

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/nets/initial_values.h"
#include "neap/nets/inverted_residual.h"

namespace neap::nets {
namespace {

// Of blocks, the first with stride 2. The channels are the paper's quantized linear function of the
// block's number, as torchvision rounds it.
struct RegNetStage {
  int64_t blocks, channels;
};
constexpr RegNetStage kRegNetStages[] = {{1, 48}, {3, 104}, {6, 208}, {6, 440}};
constexpr int64_t kStem = 32;
constexpr int64_t kGroupWidth = 8;    // channels of a group of the 3x3 convolutions
constexpr int64_t kSqueezedPart = 4;  // the squeezed channels are this part of the block's input's

// 1x1, grouped 3x3, squeeze and excitation, 1x1; a shortcut, projected if the block changes the
// shape; their sum and a ReLU.
void AddBlock(MobileTrunk& trunk, const std::string& name, int64_t channels, int64_t stride) {
  std::string shortcut = trunk.output();
  const int64_t in_channels = trunk.channels();
  if (stride != 1 || in_channels != channels) {
    MobileTrunk projected = trunk;
    projected.AddUnit(name + ".proj", UnitConvolution(1, channels, stride), std::nullopt);
    shortcut = projected.output();
  }
  trunk.AddUnit(name + ".f.a", UnitConvolution(1, channels), Relu{});
  trunk.AddUnit(name + ".f.b", UnitConvolution(3, channels, stride, channels / kGroupWidth),
                Relu{});
  trunk.AddSqueezeExcitation(name + ".f.se", {.channels = in_channels / kSqueezedPart});
  trunk.AddUnit(name + ".f.c", UnitConvolution(1, channels), std::nullopt);
  trunk.AddShortcut(name + ".add", shortcut);
  trunk.AddActivation(name + ".activation", Relu{});
}

}  // namespace

Graph RegNetY400MF(const RegNetOptions& options) {
  Graph net({.name = "regnet_y_400mf",
             .batch = options.batch,
             .dtype = options.dtype,
             .layout = options.layout});
  const std::string x = net.Input({options.channels, options.image, options.image});
  MobileTrunk trunk(net, {}, x, options.channels);
  trunk.AddUnit("stem", UnitConvolution(3, kStem, 2), Relu{});
  int index = 1;
  for (const RegNetStage& stage : kRegNetStages) {
    for (int64_t i = 0; i < stage.blocks; ++i) {
      AddBlock(trunk, absl::StrCat("trunk_output.block", index, ".block", index, "-", i),
               stage.channels, i == 0 ? 2 : 1);
    }
    ++index;
  }
  std::string y = net.Add("avgpool", GlobalAveragePool{}, {trunk.output()});
  y = net.Add("fc", FullyConnected{.out_features = options.classes}, {y});
  net.Loss(y, SoftmaxCrossEntropy{});
  const InitialWeights convolution = {.weight = InitialWeights::Rule::kHeFanOut};
  return WithInitialValues(net, {.convolution = convolution, .linear = kNormal001});
}

}  // namespace neap::nets
