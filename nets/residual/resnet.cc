#include "neap/nets/residual/resnet.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/convolution.h"
#include "neap/layers/fully_connected.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "neap/layers/softmax_cross_entropy.h"
#include "neap/nets/initial_values.h"

namespace neap::nets {
namespace {

// A bottleneck's output has this multiple of the maps of its 3x3 convolution.
constexpr int64_t kExpansion = 4;

// The convolution has no bias, because batch norm would subtract it.
constexpr Convolution Conv(int64_t size, int64_t out_channels, int64_t stride = 1,
                           int64_t groups = 1) {
  return {.out_channels = out_channels,
          .kernel = size,
          .stride = stride,
          .padding = size / 2,
          .groups = groups,
          .bias = false};
}

// The residual blocks on top of a stem.
class ResidualTrunk {
 public:
  ResidualTrunk(Graph& net, std::string x, int64_t channels, std::vector<int64_t> dropped = {})
      : net_(net), x_(std::move(x)), channels_(channels), dropped_(std::move(dropped)) {}

  const std::string& output() const { return x_; }

  struct Stage {
    std::string name;
    int64_t blocks = 0;
    int64_t width = 0;
    int64_t stride = 1;  // of the first block
    bool bottleneck = false;
    int64_t inner_width = 0;  // of a bottleneck's first two convolutions
    int64_t groups = 1;       // of its second one
  };
  void AddStage(const Stage& stage) {
    for (int64_t i = 0; i < stage.blocks; ++i) {
      AddBlock(stage, absl::StrCat(stage.name, ".", i, "."), i == 0 ? stage.stride : 1);
    }
  }

 private:
  void AddBlock(const Stage& stage, const std::string& prefix, int64_t stride) {
    const int64_t out_channels = stage.width * (stage.bottleneck ? kExpansion : 1);
    if (std::count(dropped_.begin(), dropped_.end(), block_++) > 0) {
      KeepShortcut(prefix, out_channels, stride);
      return;
    }
    std::string y = x_;
    if (stage.bottleneck) {
      y = AddUnit(prefix, 1, Conv(1, stage.inner_width), y);
      y = net_.Add(prefix + "relu1", Relu{}, {y});
      y = AddUnit(prefix, 2, Conv(3, stage.inner_width, stride, stage.groups), y);
      y = net_.Add(prefix + "relu2", Relu{}, {y});
      y = AddUnit(prefix, 3, Conv(1, out_channels), y);
    } else {
      y = AddUnit(prefix, 1, Conv(3, stage.width, stride), y);
      y = net_.Add(prefix + "relu1", Relu{}, {y});
      y = AddUnit(prefix, 2, Conv(3, stage.width), y);
    }
    y = net_.Add(prefix + "add", Add{}, {y, AddShortcut(prefix, out_channels, stride)});
    x_ = net_.Add(prefix + (stage.bottleneck ? "relu3" : "relu2"), Relu{}, {y});
    channels_ = out_channels;
  }

  // Replaces a dropped block by its shortcut. An identity shortcut needs no ReLU, because its input
  // is the output of a ReLU.
  void KeepShortcut(const std::string& prefix, int64_t out_channels, int64_t stride) {
    const std::string shortcut = AddShortcut(prefix, out_channels, stride);
    if (shortcut != x_) x_ = net_.Add(prefix + "relu", Relu{}, {shortcut});
    channels_ = out_channels;
  }

  // The block's input, projected if the block changes its shape.
  std::string AddShortcut(const std::string& prefix, int64_t out_channels, int64_t stride) {
    if (stride == 1 && channels_ == out_channels) return x_;
    const std::string x = net_.Add(prefix + "downsample.0", Conv(1, out_channels, stride), {x_});
    return net_.Add(prefix + "downsample.1", BatchNorm{}, {x});
  }

  std::string AddUnit(const std::string& prefix, int index, const Convolution& convolution,
                      std::string x) {
    x = net_.Add(absl::StrCat(prefix, "conv", index), convolution, {x});
    return net_.Add(absl::StrCat(prefix, "bn", index), BatchNorm{}, {x});
  }

  Graph& net_;
  std::string x_;
  int64_t channels_;
  std::vector<int64_t> dropped_;  // indices of blocks
  int64_t block_ = 0;             // index of the next block
};

std::string Stem(Graph& net, const Convolution& convolution, std::string x) {
  x = net.Add("conv1", convolution, {x});
  x = net.Add("bn1", BatchNorm{}, {x});
  return net.Add("relu", Relu{}, {x});
}

void AddFc(Graph& net, int64_t classes, std::string x) {
  x = net.Add("avgpool", GlobalAveragePool{}, {x});
  x = net.Add("fc", FullyConnected{.out_features = classes}, {x});
  net.Loss(x, SoftmaxCrossEntropy{});
}

// The maps of a group in the first stage of a ResNet that is neither wide nor grouped.
constexpr int64_t kUsualWidth = 64;

std::string NameOf(const ResNetOptions& options) {
  const int64_t blocks = std::accumulate(options.blocks.begin(), options.blocks.end(), int64_t{0});
  const int64_t depth = 2 + blocks * (options.bottleneck ? 3 : 2);
  if (options.groups > 1)
    return absl::StrCat("resnext", depth, "_", options.groups, "x", options.width_per_group, "d");
  if (options.width_per_group == kUsualWidth) return absl::StrCat("resnet", depth);
  return absl::StrCat("wide_resnet", depth, "_", options.width_per_group / kUsualWidth);
}

}  // namespace

Graph ResNet(const ResNetOptions& options) {
  Graph net({.name = NameOf(options),
             .batch = options.batch,
             .dtype = options.dtype,
             .layout = options.layout});
  std::string x = net.Input({options.channels, options.image, options.image});
  x = Stem(net, Conv(7, options.width, 2), x);
  x = net.Add("maxpool", MaxPool{.kernel = 3, .stride = 2, .padding = 1}, {x});

  ResidualTrunk trunk(net, x, options.width, options.dropped);
  for (size_t stage = 0; stage < options.blocks.size(); ++stage) {
    const int64_t width = options.width << stage;
    trunk.AddStage({.name = absl::StrCat("layer", stage + 1),
                    .blocks = options.blocks[stage],
                    .width = width,
                    .stride = stage == 0 ? 1 : 2,
                    .bottleneck = options.bottleneck,
                    .inner_width = width * options.width_per_group / kUsualWidth * options.groups,
                    .groups = options.groups});
  }
  AddFc(net, options.classes, trunk.output());
  return WithInitialValues(net, {.convolution = kHeFanOut});
}

ResNetOptions ResNetOfDepth(int64_t depth) {
  ResNetOptions options = {.blocks = kDeepBlocks};
  options.blocks[2] = (depth - 2) / 3 - kDeepBlocks[0] - kDeepBlocks[1] - kDeepBlocks[3];
  return options;
}

Graph CifarResNet(const CifarResNetOptions& options) {
  Graph net({.name = absl::StrCat("resnet", 6 * options.n + 2),
             .batch = options.batch,
             .dtype = options.dtype,
             .layout = options.layout});
  std::string x = net.Input({options.channels, options.image, options.image});
  x = Stem(net, Conv(3, options.width), x);

  ResidualTrunk trunk(net, x, options.width, options.dropped);
  for (int stage = 0; stage < 3; ++stage) {
    trunk.AddStage({.name = absl::StrCat("layer", stage + 1),
                    .blocks = options.n,
                    .width = options.width << stage,
                    .stride = stage == 0 ? 1 : 2});
  }
  AddFc(net, options.classes, trunk.output());
  return WithInitialValues(net, {.convolution = kHeFanOut});
}

}  // namespace neap::nets
