// ConvNeXt (Liu et al., 2022), as torchvision's `convnext_tiny` (28,589,128 parameters),
// `convnext_small` (50,223,688) and `convnext_base` (88,591,464), whose weights it reads.
//
//   Graph net = nets::ConvNeXt({.variant = nets::kConvNeXtTiny, .batch = 128});
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "neap/core/graph/graph.h"

namespace neap::nets {

// torchvision's name, the blocks and channels of the four stages, and the rate of stochastic depth
// of the last block. That of the others grows linearly with their number, from 0.
struct ConvNeXtVariant {
  std::string_view name;
  std::array<int64_t, 4> blocks, channels;
  float stochastic_depth;
};
inline constexpr ConvNeXtVariant kConvNeXtTiny = {
    "convnext_tiny", {3, 3, 9, 3}, {96, 192, 384, 768}, 0.1F};
inline constexpr ConvNeXtVariant kConvNeXtSmall = {
    "convnext_small", {3, 3, 27, 3}, {96, 192, 384, 768}, 0.4F};
inline constexpr ConvNeXtVariant kConvNeXtBase = {
    "convnext_base", {3, 3, 27, 3}, {128, 256, 512, 1024}, 0.5F};

struct ConvNeXtOptions {
  ConvNeXtVariant variant = kConvNeXtTiny;
  int64_t image = 224;  // height and width; at least 32
  int64_t classes = 1000;
  int64_t batch = 1;
  int64_t channels = 3;
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
};

// Layers are named like torchvision's modules: features.0.0, features.1.0.block.0 ...
// classifier.2. The linear layers of a block are convolutions of one pixel, whose weights files of
// torchvision have as {out, in}. Block features.1.0 is also the name of its layer scale, whose
// parameter is features.1.0.layer_scale; its sum is features.1.0.add.
Graph ConvNeXt(const ConvNeXtOptions& options);

}  // namespace neap::nets
