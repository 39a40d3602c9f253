// RegNetY (Radosavovic et al., 2020), as torchvision's `regnet_y_400mf` (4,344,144 parameters) and
// `regnet_y_3_2gf` (19,436,338), with which it can exchange weights.
//
//   Graph net = nets::RegNetY({.variant = nets::kRegNetY400MF, .batch = 128});
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "neap/core/graph/graph.h"

namespace neap::nets {

// torchvision's name, and the blocks and channels of the four stages, whose first blocks halve the
// image. The channels are the paper's quantized linear function of the block's number, as
// torchvision rounds it.
struct RegNetVariant {
  std::string_view name;
  std::array<int64_t, 4> blocks, channels;
  int64_t group_width;  // channels of a group of the 3x3 convolutions
};
inline constexpr RegNetVariant kRegNetY400MF = {
    "regnet_y_400mf", {1, 3, 6, 6}, {48, 104, 208, 440}, 8};
inline constexpr RegNetVariant kRegNetY3200MF = {
    "regnet_y_3_2gf", {2, 5, 13, 1}, {72, 216, 576, 1512}, 24};

struct RegNetOptions {
  RegNetVariant variant = kRegNetY400MF;
  int64_t image = 224;  // height and width
  int64_t classes = 1000;
  int64_t batch = 1;
  int64_t channels = 3;
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
};

// Layers are named like torchvision's modules: stem.0, trunk_output.block1.block1-0.proj.0,
// trunk_output.block1.block1-0.f.se.fc1 ... fc; a block's sum is ...block1-0.add.
Graph RegNetY(const RegNetOptions& options);

}  // namespace neap::nets
