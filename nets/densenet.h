// Densely connected networks (Huang et al., 2016): for ImageNet as torchvision has them, and for
// CIFAR-sized images.
//
// Every layer of a block reads the outputs of all layers before it, so a block of n layers makes
// n (n + 1) / 2 copies of its n outputs, and each copy goes through a batch norm and a ReLU. The
// bytes grow with the square of the depth, but nearly all of them are cheap to recompute. As in
// torchvision, a layer concatenates all earlier outputs instead of appending one output to the
// previous concatenation, so no concatenation has to stay alive for the next layer. The first batch
// norm of every layer then reads the outputs where they are (layers/fusion/norm_pass.h), so
// the concatenations exist only without fusion.
//
//   Graph densenet121 = nets::DenseNet({.batch = 64});
//   Graph densenet161 = nets::DenseNet({.blocks = {6, 12, 36, 24}, .growth_rate = 48, .stem = 96});
//   Graph bc100 = nets::CifarDenseNet({.depth = 100, .bottleneck = true, .compression = 0.5});
#pragma once

#include <array>
#include <cstdint>

#include "neap/core/graph/graph.h"

namespace neap::nets {

struct DenseNetOptions {
  std::array<int64_t, 4> blocks = {6, 12, 24, 16};  // layers per block; DenseNet-121
  int64_t growth_rate = 32;                         // maps that every layer adds: the paper's k
  int64_t stem = 64;                                // maps before the first block
  double compression = 0.5;  // fraction of the maps that a transition keeps: the paper's theta
  int64_t image = 224;       // height and width
  int64_t classes = 1000;
  int64_t batch = 1;
  int64_t channels = 3;
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
};

// Layers per block of the paper's DenseNet-264, which in fact has 265 layers.
inline constexpr std::array<int64_t, 4> kDenseNet264 = {6, 12, 64, 48};

// Layers per block at any depth: an odd one from 45. The paper's depths 121, 169, 201 and 265
// (which it calls 264) have its blocks; the first two blocks are the same in all of these, 6 and
// 12. Between them, the third block is interpolated, and the fourth takes the rest, so that neither
// shrinks with depth. Below and above, they keep the ratio of the nearest: 3:2 and 4:3.
//
//   depth    45   ...   121   ...   169   ...   201   ...   265   ...   489
//   third     1          24          32          48          64         128
//   fourth    1          16          32          32          48          96
std::array<int64_t, 4> DenseNetBlocks(int64_t depth);

// torchvision's densenet121 (7,978,856 parameters), 161, 169, 201, and the paper's 264: a layer is
// batch norm, ReLU, a 1x1 convolution to 4k maps, batch norm, ReLU, a 3x3 convolution to k maps.
// Layers are named like its modules (features.denseblock1.denselayer2.norm1, classifier); layers
// without a module follow the same scheme (features.denseblock1.denselayer2.cat). The graph's name
// is densenetD, where D is 2 per layer and 5 for the stem, three transitions and the classifier.
Graph DenseNet(const DenseNetOptions& options);

struct CifarDenseNetOptions {
  int64_t depth = 40;  // 3n + 4, or 6n + 4 with bottleneck: n layers in each of three blocks
  int64_t growth_rate = 12;
  bool bottleneck = false;  // a layer's 3x3 convolution comes after a 1x1 one to 4k maps
  double compression = 1;   // fraction of the maps that a transition keeps
  int64_t image = 32;       // height and width; at least 4
  int64_t classes = 10;
  int64_t batch = 1;
  int64_t channels = 3;
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
};

// Section 4.2: a 3x3 stem of 16 maps, or 2k with bottleneck. DenseNet (L = 40, k = 12) has
// 1,019,722 parameters, DenseNet-BC (L = 100, k = 12) 769,162. There is no dropout, which the paper
// uses only without image augmentation.
Graph CifarDenseNet(const CifarDenseNetOptions& options);

}  // namespace neap::nets
