#include "neap/nets/residual/residual_trunk.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/layers/activation.h"
#include "neap/layers/batch_norm.h"
#include "neap/layers/join.h"
#include "neap/layers/pooling.h"
#include "neap/nets/initial_values.h"

namespace neap::nets {
namespace {

// A bottleneck's output has this multiple of the maps of its 3x3 convolution.
constexpr int64_t kExpansion = 4;

}  // namespace

Convolution ResidualConvolution(int64_t size, int64_t out_channels, int64_t stride, int64_t groups,
                                int64_t dilation) {
  return {.out_channels = out_channels,
          .kernel = size,
          .stride = stride,
          .padding = size / 2 * dilation,
          .dilation = dilation,
          .groups = groups,
          .bias = false,
          .init = kHeFanOut};
}

void ResidualTrunk::AddStage(const ResidualStage& stage) {
  for (int64_t i = 0; i < stage.blocks; ++i) {
    AddBlock(stage, absl::StrCat(stage.name, ".", i, "."), i == 0 ? stage.stride : 1,
             i == 0 ? stage.first_dilation : stage.dilation);
  }
}

void ResidualTrunk::AddBlock(const ResidualStage& stage, const std::string& prefix, int64_t stride,
                             int64_t dilation) {
  const int64_t out_channels = stage.width * (stage.bottleneck ? kExpansion : 1);
  if (std::count(dropped_.begin(), dropped_.end(), block_++) > 0) {
    KeepShortcut(prefix, out_channels, stride);
    return;
  }
  std::string y = x_;
  if (stage.bottleneck) {
    y = AddUnit(prefix, 1, ResidualConvolution(1, stage.inner_width), y);
    y = net_.Add(prefix + "relu1", Relu{}, {y});
    y = AddUnit(prefix, 2,
                ResidualConvolution(3, stage.inner_width, stride, stage.groups, dilation), y);
    y = net_.Add(prefix + "relu2", Relu{}, {y});
    y = AddUnit(prefix, 3, ResidualConvolution(1, out_channels), y);
  } else {
    y = AddUnit(prefix, 1, ResidualConvolution(3, stage.width, stride, 1, dilation), y);
    y = net_.Add(prefix + "relu1", Relu{}, {y});
    y = AddUnit(prefix, 2, ResidualConvolution(3, stage.width, 1, 1, dilation), y);
  }
  y = net_.Add(prefix + "add", Add{}, {y, AddShortcut(prefix, out_channels, stride)});
  x_ = net_.Add(prefix + (stage.bottleneck ? "relu3" : "relu2"), Relu{}, {y});
  channels_ = out_channels;
}

// Replaces a dropped block by its shortcut. An identity shortcut needs no ReLU, because its input
// is the output of a ReLU.
void ResidualTrunk::KeepShortcut(const std::string& prefix, int64_t out_channels, int64_t stride) {
  const std::string shortcut = AddShortcut(prefix, out_channels, stride);
  if (shortcut != x_) x_ = net_.Add(prefix + "relu", Relu{}, {shortcut});
  channels_ = out_channels;
}

// The block's input, projected if the block changes its shape.
std::string ResidualTrunk::AddShortcut(const std::string& prefix, int64_t out_channels,
                                       int64_t stride) {
  if (stride == 1 && channels_ == out_channels) return x_;
  const std::string x =
      net_.Add(prefix + "downsample.0", ResidualConvolution(1, out_channels, stride), {x_});
  return net_.Add(prefix + "downsample.1", BatchNorm{}, {x});
}

std::string ResidualTrunk::AddUnit(const std::string& prefix, int index,
                                   const Convolution& convolution, std::string x) {
  x = net_.Add(absl::StrCat(prefix, "conv", index), convolution, {x});
  return net_.Add(absl::StrCat(prefix, "bn", index), BatchNorm{}, {x});
}

std::string AddResidualStem(Graph& net, const std::string& prefix, const Convolution& convolution,
                            std::string x) {
  x = net.Add(prefix + "conv1", convolution, {x});
  x = net.Add(prefix + "bn1", BatchNorm{}, {x});
  return net.Add(prefix + "relu", Relu{}, {x});
}

ResNetStages AddResNetStages(Graph& net, const ResNetOptions& options, const std::string& prefix,
                             const std::string& x, const StageDilation& dilation) {
  const std::string stem =
      AddResidualStem(net, prefix, ResidualConvolution(7, options.width, 2), x);
  ResNetStages outputs = {StageOutput{stem, options.width, 2}};
  const std::string pooled =
      net.Add(prefix + "maxpool", MaxPool{.kernel = 3, .stride = 2, .padding = 1}, {stem});

  ResidualTrunk trunk(net, pooled, options.width, options.dropped);
  int64_t stride = 4, dilated = 1;
  for (size_t i = 0; i < options.blocks.size(); ++i) {
    const int64_t width = options.width << i;
    const bool halves = i > 0, strides = halves && stride < dilation.output_stride;
    const int64_t before = dilated;
    if (strides) stride *= 2;
    if (halves && !strides) dilated *= 2;
    trunk.AddStage(
        {.name = absl::StrCat(prefix, "layer", i + 1),
         .blocks = options.blocks[i],
         .width = width,
         .stride = strides ? 2 : 1,
         .bottleneck = options.bottleneck,
         .inner_width = width * options.width_per_group / kPlainGroupWidth * options.groups,
         .groups = options.groups,
         .dilation = dilated,
         .first_dilation = dilation.lags ? before : dilated});
    outputs[i + 1] = {trunk.output(), trunk.channels(), stride};
  }
  return outputs;
}

}  // namespace neap::nets
