// Residual networks (He et al., 2015) of any depth: for ImageNet as torchvision has them, also wide
// ones (Zagoruyko and Komodakis, 2016) and those with grouped convolutions (ResNeXt, Xie et al.,
// 2017), and for CIFAR-sized images.
//
// Shortcuts make them hard to plan: a block's input stays alive over the whole block, and its
// gradient is a sum of two. Layers are named like torchvision's modules (conv1, layer1.0.bn2,
// layer2.0.downsample.0, fc), to exchange weights with PyTorch; layers without parameters follow
// the same scheme (layer1.0.relu1, layer1.0.add).
//
//   Graph resnet50 = nets::ResNet({.batch = 128});
//   Graph resnet18 = nets::ResNet({.blocks = {2, 2, 2, 2}, .bottleneck = false, .batch = 128});
//   Graph wide = nets::ResNet({.batch = 64, .width_per_group = 128});
//   Graph resnext50 = nets::ResNet({.batch = 64, .groups = 32, .width_per_group = 4});
//   Graph deep = nets::ResNet(nets::ResNetOfDepth(1001));
//   Graph resnet20 = nets::CifarResNet({.n = 3, .batch = 128});
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "neap/core/graph/graph.h"

namespace neap::nets {

// The blocks of each stage, and whether they are bottlenecks.
struct ResNetVariant {
  std::string_view name;
  std::array<int64_t, 4> blocks;
  bool bottleneck;
};
inline constexpr ResNetVariant kResNet18 = {"resnet18", {2, 2, 2, 2}, false};
inline constexpr ResNetVariant kResNet34 = {"resnet34", {3, 4, 6, 3}, false};
inline constexpr ResNetVariant kResNet50 = {"resnet50", {3, 4, 6, 3}, true};
inline constexpr ResNetVariant kResNet101 = {"resnet101", {3, 4, 23, 3}, true};
inline constexpr ResNetVariant kResNet152 = {"resnet152", {3, 8, 36, 3}, true};

struct ResNetOptions {
  std::array<int64_t, 4> blocks = {3, 4, 6, 3};  // per stage; ResNet-50
  bool bottleneck = true;  // 1x1, 3x3, 1x1 convolutions in a block; otherwise two 3x3
  int64_t image = 224;     // height and width
  int64_t classes = 1000;
  int64_t batch = 1;
  int64_t channels = 3;
  int64_t width = 64;  // maps in the stem; every stage after the first doubles them
  // A bottleneck's 3x3 convolution: its groups, and the maps of a group in the first stage where
  // `width` is 64.
  int64_t groups = 1;
  int64_t width_per_group = 64;
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
  // Stochastic depth (Huang et al., 2016): indices of blocks to drop. Their shortcuts remain.
  std::vector<int64_t> dropped = {};
};

// torchvision's resnet18 ... resnet152 ("v1.5": a bottleneck's stride is at its 3x3 convolution).
// The graph's name is resnetD, where D is 2 + the number of convolutions on the main path between
// stem and classifier, wide_resnetD_F with F times the width per group, or resnextD_GxWd with G
// groups of width W.
Graph ResNet(const ResNetOptions& options);

// SuperNeurons' rule for deeper networks (section 4): depth = 3 (n1 + n2 + n3 + n4) + 2 with n1 =
// 6, n2 = 32, n4 = 6 and n3 >= 1, which gives depths 137, 140, 143, ...
inline constexpr std::array<int64_t, 4> kDeepBlocks = {6, 32, 1, 6};
ResNetOptions ResNetOfDepth(int64_t depth);

struct CifarResNetOptions {
  int64_t n = 3;       // blocks per stage: 6n + 2 layers
  int64_t image = 32;  // height and width; at least 8
  int64_t classes = 10;
  int64_t batch = 1;
  int64_t channels = 3;
  int64_t width = 16;  // maps in the first stage, doubled in the second and third
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
  std::vector<int64_t> dropped = {};  // as in ResNetOptions
};

// He et al., section 4.2: a 3x3 stem, three stages of n basic blocks. If a block changes the shape,
// its shortcut is a 1x1 projection with batch norm (option B, as in the ImageNet networks), not the
// paper's zero padding (option A): ResNet-20 has 2,752 parameters more than the paper's.
Graph CifarResNet(const CifarResNetOptions& options);

}  // namespace neap::nets
