#include "neap/nets/segmentation/resnet_decoders.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/convolution.h"
#include "neap/layers/dropout.h"
#include "neap/layers/join.h"
#include "neap/layers/norm/group_norm.h"
#include "neap/layers/resize/resize.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/nets/initial_values.h"
#include "neap/nets/residual/residual_trunk.h"
#include "neap/nets/segmentation/atrous_pyramid.h"
#include "neap/nets/segmentation/sequential_unit.h"

namespace neap::nets {
namespace {

constexpr int64_t kHeadScale = 4;  // of the heads that enlarge

Graph DecoderGraph(const char* decoder, const ResNetDecoderOptions& options) {
  return Graph({.name = absl::StrCat(decoder, "-", std::string(options.encoder.name)),
                .batch = options.batch,
                .dtype = options.dtype,
                .layout = options.layout});
}

ResNetStages AddResNetEncoder(Graph& net, const ResNetDecoderOptions& options,
                              int64_t output_stride) {
  const std::string image = net.Input({options.channels, options.image, options.image});
  const ResNetOptions encoder = {.blocks = options.encoder.blocks,
                                 .bottleneck = options.encoder.bottleneck};
  return AddResNetStages(net, encoder, "encoder.", image, {.output_stride = output_stride});
}

Resize NearestTwice() { return {.scales = {2}}; }
Resize BilinearAligned(int64_t scale) {
  return {.scales = {static_cast<double>(scale)},
          .mode = Resize::Mode::kLinear,
          .coordinates = Resize::Coordinates::kAlignCorners};
}

// A convolution whose padding keeps the size. It begins as initialize_decoder() has it.
Convolution DecoderConvolution(int64_t size, int64_t in_channels, int64_t out_channels, bool bias) {
  return {.out_channels = out_channels,
          .kernel = size,
          .padding = size / 2,
          .bias = bias,
          .init = HeUniform(in_channels * size * size)};
}
// The same, as initialize_head() has it.
Convolution HeadConvolution(int64_t size, int64_t in_channels, int64_t classes) {
  Convolution head = DecoderConvolution(size, in_channels, classes, /*bias=*/true);
  head.init = XavierUniform(in_channels * size * size, classes * size * size);
  return head;
}

// `x` as large as the image, and its loss.
Graph WithHead(Graph net, const ResNetDecoderOptions& options, const Convolution& head,
               int64_t scale, std::string x) {
  x = net.Add("segmentation_head.0", head, {x});
  if (scale > 1) x = net.Add("segmentation_head.1", BilinearAligned(scale), {x});
  net.PixelLoss(x, SoftmaxCrossEntropy{}, {options.image, options.image});
  return net;
}

// So many 3x3 convolutions with group norms and ReLUs, each of which enlarges behind them.
std::string AddPyramidHead(Graph& net, const std::string& prefix, int64_t convolutions,
                           bool enlarges, int64_t in_channels, int64_t channels, std::string x) {
  for (int64_t i = 0; i < convolutions; ++i) {
    const std::string block = absl::StrCat(prefix, ".block.", i);
    const int64_t in = i == 0 ? in_channels : channels;
    x = net.Add(block + ".block.0", DecoderConvolution(3, in, channels, /*bias=*/false), {x});
    x = net.Add(block + ".block.1", GroupNorm{.groups = 32}, {x});
    x = net.Add(block + ".block.2", Relu{}, {x});
    if (enlarges) x = net.Add(block + ".up", BilinearAligned(2), {x});
  }
  return x;
}

}  // namespace

Graph ResNetUNet(const ResNetDecoderOptions& options) {
  constexpr int64_t kChannels[] = {256, 128, 64, 32, 16};
  Graph net = DecoderGraph("unet", options);
  const ResNetStages encoded = AddResNetEncoder(net, options, 32);
  std::string x = encoded.back().name;
  int64_t channels = encoded.back().channels;
  for (size_t i = 0; i < std::size(kChannels); ++i) {
    const std::string block = absl::StrCat("decoder.blocks.", i);
    x = net.Add(block + ".up", NearestTwice(), {x});
    if (i + 1 < encoded.size()) {
      const StageOutput& skip = encoded[encoded.size() - 2 - i];
      x = net.Add(block + ".cat", Concat{}, {x, skip.name});
      channels += skip.channels;
    }
    for (const char* part : {".conv1.", ".conv2."}) {
      x = AddSequentialUnit(net, block + part, 0,
                            DecoderConvolution(3, channels, kChannels[i], /*bias=*/false), x);
      channels = kChannels[i];
    }
  }
  const Convolution head = HeadConvolution(3, channels, options.classes);
  return WithHead(std::move(net), options, head, 1, x);
}

Graph ResNetFpn(const ResNetDecoderOptions& options) {
  constexpr int64_t kPyramid = 256, kSegmentation = 128;
  constexpr int64_t kLevels = 4;  // layer1 to layer4
  Graph net = DecoderGraph("fpn", options);
  const ResNetStages encoded = AddResNetEncoder(net, options, 32);
  std::string x;
  std::vector<std::string> levels;
  for (int64_t level = kLevels; level >= 1; --level) {
    const StageOutput& stage = encoded[static_cast<size_t>(level)];
    const std::string name = absl::StrCat("decoder.p", level + 1);
    const Convolution lateral = DecoderConvolution(1, stage.channels, kPyramid, /*bias=*/true);
    if (level == kLevels) {
      x = net.Add(name, lateral, {stage.name});
    } else {
      x = net.Add(name + ".up", NearestTwice(), {x});
      x = net.Add(name + ".add", Add{}, {x, net.Add(name + ".skip_conv", lateral, {stage.name})});
    }
    const int64_t doublings = level - 1;
    levels.push_back(AddPyramidHead(net, absl::StrCat("decoder.seg_blocks.", kLevels - level),
                                    std::max<int64_t>(doublings, 1), doublings > 0, kPyramid,
                                    kSegmentation, x));
  }
  x = net.Add("decoder.merge", Add{}, levels);
  x = net.Add("decoder.dropout", Dropout{.probability = 0.2F, .per_channel = true}, {x});
  const Convolution head = HeadConvolution(1, kSegmentation, options.classes);
  return WithHead(std::move(net), options, head, kHeadScale, x);
}

// The package leaves the weights of this decoder as PyTorch's layers begin.
Graph DeepLabV3Plus(const ResNetDecoderOptions& options) {
  constexpr int64_t kOutputStride = 16, kPyramid = 256, kFine = 48;
  Graph net = DecoderGraph("deeplabv3plus", options);
  const ResNetStages encoded = AddResNetEncoder(net, options, kOutputStride);
  const AtrousPyramid pyramid = {
      .size = options.image / kOutputStride, .out_channels = kPyramid, .separable = true};
  const Convolution separable = {.out_channels = kPyramid, .kernel = 3, .padding = 1};
  std::string x = AddAtrousPyramid(net, "decoder.aspp.0.", pyramid, encoded.back().channels,
                                   encoded.back().name);
  x = AddSeparableUnit(net, "decoder.aspp.", 1, kPyramid, separable, x);
  x = net.Add("decoder.up", BilinearAligned(kOutputStride / encoded[1].stride), {x});
  const std::string fine = AddSequentialUnit(
      net, "decoder.block1.", 0, {.out_channels = kFine, .bias = false}, encoded[1].name);
  x = net.Add("decoder.cat", Concat{}, {x, fine});
  x = AddSeparableUnit(net, "decoder.block2.", 0, kPyramid + kFine, separable, x);
  return WithHead(std::move(net), options, {.out_channels = options.classes}, kHeadScale, x);
}

}  // namespace neap::nets
