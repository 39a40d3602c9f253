#include "neap/nets/mobile/efficientnet.h"

#include <algorithm>
#include <array>
#include <cmath>
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

// A line of the paper's table 1, for B0: `blocks` blocks, of which the first has the stride.
struct EfficientNetStage {
  int64_t expansion, kernel, stride, channels, blocks;
};
constexpr EfficientNetStage kEfficientNetStages[] = {
    {1, 3, 1, 16, 1},  {6, 3, 2, 24, 2},  {6, 5, 2, 40, 2}, {6, 3, 2, 80, 3},
    {6, 5, 1, 112, 3}, {6, 5, 2, 192, 4}, {6, 3, 1, 320, 1}};

// How a variant differs from B0.
struct Variant {
  double width, depth;  // multiply the numbers of channels and of blocks
  int64_t image;
  float dropout;
};
constexpr std::array<Variant, 4> kVariants = {
    {{1.0, 1.0, 224, 0.2F}, {1.0, 1.1, 240, 0.2F}, {1.1, 1.2, 288, 0.3F}, {1.2, 1.4, 300, 0.3F}}};

const Variant& VariantOf(int variant) { return kVariants[static_cast<size_t>(variant)]; }

InvertedResidual BlockOf(const EfficientNetStage& stage, int64_t in_channels, int64_t out_channels,
                         int64_t stride) {
  return {.kernel = stage.kernel,
          .stride = stride,
          .expanded = MultipleOf8(static_cast<double>(in_channels * stage.expansion)),
          .out_channels = out_channels,
          .activation = Silu{},
          .squeeze = SqueezeExcitation{.channels = std::max<int64_t>(1, in_channels / 4),
                                       .activation = Silu{}}};
}

}  // namespace

EfficientNetOptions EfficientNetB(int variant) {
  const Variant& v = VariantOf(variant);
  return {.variant = variant, .image = v.image, .dropout = v.dropout};
}

Graph EfficientNet(const EfficientNetOptions& options) {
  constexpr double kStem = 32;
  constexpr int64_t kLastExpansion = 4;
  const Variant& variant = VariantOf(options.variant);
  Graph net({.name = absl::StrCat("efficientnet_b", options.variant),
             .batch = options.batch,
             .dtype = options.dtype,
             .layout = options.layout});
  const std::string x = net.Input({options.channels, options.image, options.image});
  MobileTrunk trunk(net, {}, x, options.channels);
  trunk.AddUnit("features.0", UnitConvolution(3, MultipleOf8(kStem * variant.width), 2), Silu{});
  int index = 1;
  for (const EfficientNetStage& stage : kEfficientNetStages) {
    const int64_t channels = MultipleOf8(static_cast<double>(stage.channels) * variant.width);
    const double blocks = std::ceil(static_cast<double>(stage.blocks) * variant.depth);
    for (int64_t i = 0; i < static_cast<int64_t>(blocks); ++i) {
      trunk.AddBlock(absl::StrCat("features.", index, ".", i),
                     BlockOf(stage, trunk.channels(), channels, i == 0 ? stage.stride : 1));
    }
    ++index;
  }
  trunk.AddUnit(absl::StrCat("features.", index),
                UnitConvolution(1, kLastExpansion * trunk.channels()), Silu{});
  std::string y = net.Add("avgpool", GlobalAveragePool{}, {trunk.output()});
  y = net.Add("classifier.0", Dropout{.probability = options.dropout}, {y});
  y = net.Add("classifier.1", FullyConnected{.out_features = options.classes}, {y});
  net.Loss(y, SoftmaxCrossEntropy{});
  const InitialWeights linear = {.weight = InitialWeights::Rule::kUniform,
                                 .scale = 1 / std::sqrt(static_cast<float>(options.classes)),
                                 .zero_bias = true};
  return WithInitialValues(net, {.convolution = kHeFanOut, .linear = linear});
}

}  // namespace neap::nets
