#include "neap/nets/mobile/mobilenet_v3.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/layers/dropout.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/nets/initial_values.h"
#include "neap/nets/mobile/inverted_residual.h"

namespace neap::nets {
namespace {

// A line of the paper's tables 1 and 2.
struct Row {
  int64_t kernel, expanded, out_channels;
  bool squeezes, hard_swish;
  int64_t stride;
};
constexpr bool kSqueezes = true, kHardSwish = true;

const std::vector<Row>& Large() {
  static const std::vector<Row> rows = {
      {3, 16, 16, false, false, 1},
      {3, 64, 24, false, false, 2},
      {3, 72, 24, false, false, 1},
      {5, 72, 40, kSqueezes, false, 2},
      {5, 120, 40, kSqueezes, false, 1},
      {5, 120, 40, kSqueezes, false, 1},
      {3, 240, 80, false, kHardSwish, 2},
      {3, 200, 80, false, kHardSwish, 1},
      {3, 184, 80, false, kHardSwish, 1},
      {3, 184, 80, false, kHardSwish, 1},
      {3, 480, 112, kSqueezes, kHardSwish, 1},
      {3, 672, 112, kSqueezes, kHardSwish, 1},
      {5, 672, 160, kSqueezes, kHardSwish, 2},
      {5, 960, 160, kSqueezes, kHardSwish, 1},
      {5, 960, 160, kSqueezes, kHardSwish, 1},
  };
  return rows;
}

const std::vector<Row>& Small() {
  static const std::vector<Row> rows = {
      {3, 16, 16, kSqueezes, false, 2},       {3, 72, 24, false, false, 2},
      {3, 88, 24, false, false, 1},           {5, 96, 40, kSqueezes, kHardSwish, 2},
      {5, 240, 40, kSqueezes, kHardSwish, 1}, {5, 240, 40, kSqueezes, kHardSwish, 1},
      {5, 120, 48, kSqueezes, kHardSwish, 1}, {5, 144, 48, kSqueezes, kHardSwish, 1},
      {5, 288, 96, kSqueezes, kHardSwish, 2}, {5, 576, 96, kSqueezes, kHardSwish, 1},
      {5, 576, 96, kSqueezes, kHardSwish, 1},
  };
  return rows;
}

InvertedResidual BlockOf(const Row& row) {
  InvertedResidual block = {.kernel = row.kernel,
                            .stride = row.stride,
                            .expanded = row.expanded,
                            .out_channels = row.out_channels};
  if (row.hard_swish) block.activation = HardSwish{};
  if (row.squeezes) {
    const double channels = static_cast<double>(row.expanded / 4);
    block.squeeze = SqueezeExcitation{.channels = MultipleOf8(channels), .gate = HardSigmoid{}};
  }
  return block;
}

}  // namespace

Graph MobileNetV3(const MobileNetV3Options& options) {
  constexpr int64_t kStem = 16, kLastExpansion = 6;
  Graph net({.name = options.large ? "mobilenet_v3_large" : "mobilenet_v3_small",
             .batch = options.batch,
             .dtype = options.dtype,
             .layout = options.layout});
  const std::string x = net.Input({options.channels, options.image, options.image});
  MobileTrunk trunk(net, {.epsilon = 1e-3F, .momentum = 0.01F}, x, options.channels);
  int index = 0;
  const auto feature = [&] { return absl::StrCat("features.", index++); };
  trunk.AddUnit(feature(), UnitConvolution(3, kStem, 2), HardSwish{});
  for (const Row& row : options.large ? Large() : Small()) trunk.AddBlock(feature(), BlockOf(row));
  trunk.AddUnit(feature(), UnitConvolution(1, kLastExpansion * trunk.channels()), HardSwish{});
  std::string y = net.Add("avgpool", GlobalAveragePool{}, {trunk.output()});
  y = net.Add("classifier.0", FullyConnected{.out_features = options.large ? 1280 : 1024}, {y});
  y = net.Add("classifier.1", HardSwish{}, {y});
  y = net.Add("classifier.2", Dropout{.probability = options.dropout}, {y});
  y = net.Add("classifier.3", FullyConnected{.out_features = options.classes}, {y});
  net.Loss(y, SoftmaxCrossEntropy{});
  return WithInitialValues(net, {.convolution = kHeFanOut, .linear = kNormal001});
}

}  // namespace neap::nets
