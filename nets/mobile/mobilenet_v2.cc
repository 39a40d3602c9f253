#include "neap/nets/mobile/mobilenet_v2.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/nets/initial_values.h"
#include "neap/nets/mobile/inverted_residual.h"

namespace neap::nets {
namespace {

// A line of the paper's table 2: `blocks` blocks, of which the first has the stride.
struct MobileNetV2Stage {
  int64_t expansion, channels, blocks, stride;
};
constexpr MobileNetV2Stage kMobileNetV2Stages[] = {{1, 16, 1, 1}, {6, 24, 2, 2}, {6, 32, 3, 2},
                                                   {6, 64, 4, 2}, {6, 96, 3, 1}, {6, 160, 3, 2},
                                                   {6, 320, 1, 1}};

// torchvision numbers the projection and its batch norm apart here, unlike in later networks.
void AddBlock(MobileTrunk& trunk, const std::string& name, int64_t expansion, int64_t out_channels,
              int64_t stride) {
  const std::string input = trunk.output();
  const bool has_shortcut = stride == 1 && trunk.channels() == out_channels;
  const int64_t expanded = trunk.channels() * expansion;
  int index = 0;  // of torchvision's nn.Sequential
  const auto part = [&] { return absl::StrCat(name, ".conv.", index++); };
  if (expansion != 1) trunk.AddUnit(part(), UnitConvolution(1, expanded), Clip{0, 6});
  trunk.AddUnit(part(), UnitConvolution(3, expanded, stride, expanded), Clip{0, 6});
  const std::string projection = part();
  trunk.AddLinear(projection, part(), UnitConvolution(1, out_channels));
  if (has_shortcut) trunk.AddShortcut(name + ".add", input);
}

}  // namespace

Graph MobileNetV2(const MobileNetV2Options& options) {
  constexpr double kStem = 32, kLast = 1280;
  Graph net({.name = "mobilenet_v2",
             .batch = options.batch,
             .dtype = options.dtype,
             .layout = options.layout});
  const std::string x = net.Input({options.channels, options.image, options.image});
  MobileTrunk trunk(net, {}, x, options.channels);
  int index = 0;
  const auto feature = [&] { return absl::StrCat("features.", index++); };
  trunk.AddUnit(feature(), UnitConvolution(3, MultipleOf8(kStem * options.width), 2), Clip{0, 6});
  for (const MobileNetV2Stage& stage : kMobileNetV2Stages) {
    const int64_t channels = MultipleOf8(static_cast<double>(stage.channels) * options.width);
    for (int64_t i = 0; i < stage.blocks; ++i)
      AddBlock(trunk, feature(), stage.expansion, channels, i == 0 ? stage.stride : 1);
  }
  trunk.AddUnit(feature(), UnitConvolution(1, MultipleOf8(kLast * std::max(1.0, options.width))),
                Clip{0, 6});
  std::string y = net.Add("avgpool", GlobalAveragePool{}, {trunk.output()});
  y = net.Add("classifier.0", Dropout{.probability = options.dropout}, {y});
  y = net.Add("classifier.1", FullyConnected{.out_features = options.classes}, {y});
  net.Loss(y, SoftmaxCrossEntropy{});
  return WithInitialValues(net, {.convolution = kHeFanOut, .linear = kNormal001});
}

}  // namespace neap::nets
