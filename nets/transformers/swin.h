// Swin transformers (Liu et al., 2021), as torchvision's `swin_t` (28,288,354 parameters), `swin_s`
// (49,606,258) and `swin_b` (87,768,224), whose weights they read.
//
//   Graph net = nets::Swin({.variant = nets::kSwinT, .batch = 128});
//
// Positions read each other in windows of 7x7 alone. In every second block, windows are shifted by
// half of one, so that neighbours reach each other:
//
//   x -> norm1 -> [ZeroPad] -> [Roll by -3] -> WindowPartition -> qkv -> attention -> WindowMerge
//     -> [Roll by 3] -> [Crop] -> proj -> + x;  then + mlp(norm2(x))
//
// The image is padded to whole windows behind norm1, and not rolled along an axis of one window.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "neap/core/graph/graph.h"

namespace neap::nets {

inline constexpr int64_t kSwinPatch = 4, kSwinWindow = 7;  // edges, in pixels and positions

// torchvision's name, the blocks and heads of the four stages, the channels of the first one, which
// double from stage to stage, and the rate of stochastic depth of the last block. That of the
// others grows linearly with their number, from 0.
struct SwinVariant {
  std::string_view name;
  std::array<int64_t, 4> blocks = {}, heads = {};
  int64_t channels = 0;
  float stochastic_depth = 0;
};
inline constexpr SwinVariant kSwinT = {"swin_t", {2, 2, 6, 2}, {3, 6, 12, 24}, 96, 0.2F};
inline constexpr SwinVariant kSwinS = {"swin_s", {2, 2, 18, 2}, {3, 6, 12, 24}, 96, 0.3F};
inline constexpr SwinVariant kSwinB = {"swin_b", {2, 2, 18, 2}, {4, 8, 16, 32}, 128, 0.5F};

struct SwinOptions {
  SwinVariant variant = kSwinT;
  int64_t image = 224;  // height and width; at least 4
  int64_t classes = 1000;
  int64_t batch = 1;
  int64_t channels = 3;
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
};

// Names and shapes in files are torchvision's: features.0.0.weight, features.1.0.norm1.weight, of
// each block so attn.qkv.weight, attn.relative_position_bias_table, attn.proj.weight, norm2.weight,
// mlp.0.weight and mlp.3.weight, features.2.norm.weight and features.2.reduction.weight between
// stages, norm.weight, head.weight. attn.relative_position_index is not a weight and is ignored.
Graph Swin(const SwinOptions& options);

}  // namespace neap::nets
