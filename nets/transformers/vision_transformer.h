// Vision transformers (Dosovitskiy et al., 2021), as torchvision's `vit_b_16` (86,567,656
// parameters) and `vit_l_16` (304,326,632), whose weights they read, and `vit_s_16`, which has the
// size of timm's vit_small_patch16_224 (22,050,664).
//
//   Graph net = nets::VisionTransformer({.variant = nets::kVitB16, .batch = 128});
//
//   image -> conv_proj, patches of 16x16 -> class_token before them -> + encoder.pos_embedding
//         -> L x [ x + self_attention(ln_1(x)), x + mlp(ln_2(x)) ] -> position 0 -> ln -> head
#pragma once

#include <cstdint>
#include <string_view>

#include "neap/core/graph/graph.h"

namespace neap::nets {

inline constexpr int64_t kVitPatch = 16;  // edge, in pixels

struct VisionTransformerVariant {
  std::string_view name;
  int64_t blocks = 0;
  int64_t heads = 0;
  int64_t channels = 0;  // a fourth of an MLP's
};
inline constexpr VisionTransformerVariant kVitS16 = {"vit_s_16", 12, 6, 384};
inline constexpr VisionTransformerVariant kVitB16 = {"vit_b_16", 12, 12, 768};
inline constexpr VisionTransformerVariant kVitL16 = {"vit_l_16", 24, 16, 1024};

struct VisionTransformerOptions {
  VisionTransformerVariant variant = kVitB16;
  int64_t image = 224;  // height and width; a multiple of kVitPatch
  int64_t classes = 1000;
  int64_t batch = 1;
  int64_t channels = 3;
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
};

// Names and shapes in files are torchvision's, of all three: class_token, conv_proj.weight,
// encoder.pos_embedding, encoder.layers.encoder_layer_0.ln_1.weight, of each layer so
// self_attention.in_proj_weight, self_attention.out_proj.weight, mlp.0.weight and mlp.3.weight, and
// encoder.ln.weight, heads.head.weight. So is how they begin, but for the biases of the MLPs, which
// torchvision draws with a deviation of 1e-6, and which begin at 0.
Graph VisionTransformer(const VisionTransformerOptions& options);

}  // namespace neap::nets
