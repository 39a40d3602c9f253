// Cases of attention.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/layers/attention/attention.h"
#include "tests/layers/case_list.h"

namespace neap::testing {

void CaseList::AddAttention(const Attention& layer, const std::vector<Shape>& inputs) {
  Add(absl::StrCat("attention ", layer.Parameters(), " of ", inputs.size()), layer, inputs);
}

// With all options, of tensors apart and packed.
void CaseList::AddAttentions(int64_t images, int64_t dims, int64_t queries, int64_t keys) {
  const Shape query = {images, 4 * dims, queries}, key = {images, 4 * dims, keys};
  const Shape shared = {images, 2 * dims, keys}, packed = {images, 8 * dims, queries};
  AddAttention({.heads = 4}, {query, key, key});
  AddAttention({.heads = 4, .causal = true}, {query, key, key});
  AddAttention({.heads = 4, .kv_heads = 2, .scale = 0.3F}, {query, shared, shared});
  AddAttention({.heads = 4}, {query, key, {images, 8, keys}});  // values of other dimensions
  AddAttention({.heads = 4}, {query, key, key, {images, 4, queries, keys}});
  AddAttention({.heads = 4, .causal = true}, {query, key, key, {images, 1, queries, keys}});
  AddAttention({.heads = 4, .learned_bias = true}, {query, key, key});
  AddAttention({.heads = 4, .kv_heads = 2, .causal = true}, {packed});
  AddAttention({.heads = 4, .kv_heads = 2, .learned_bias = true}, {packed});
  AddAttention({.heads = 6, .kv_heads = 1}, {packed, {images, 6, queries, queries}});
  if (dims % 2 != 0) return;
  AddAttention({.heads = 4, .rotary_dims = dims}, {query, key, key});
  AddAttention({.heads = 4, .kv_heads = 2, .causal = true, .rotary_dims = 2, .rotary_base = 100},
               {packed});
}

void CaseList::Attentions() {
  AddAttention({}, {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}});
  AddAttention({}, {{2, 3, 1}});
  AddAttentions(2, 4, 1, 1);
  AddAttentions(2, 8, 5, 7);
  AddAttentions(1, 3, 9, 4);     // dimensions that are no multiple of a vector
  AddAttentions(2, 32, 40, 33);  // several tiles, which do not divide the positions
  AddAttentions(1, 64, 33, 65);
  AddAttention({.heads = 2, .causal = true}, {{1, 200, 35}, {1, 200, 20}, {1, 200, 20}});
  AddAttention({.heads = 2, .causal = true, .rotary_dims = 64}, {{1, 1020, 18}});
  AddAttention({.heads = 1}, {{1, 256, 9}, {1, 256, 17}, {1, 250, 17}});
  AddAttention({.heads = 1}, {{1, 512, 5}, {1, 512, 9}, {1, 510, 9}});
  AddAttention({.heads = 2}, {{2, 48, 4, 5}});                                // images
  AddAttention({.heads = 2}, {{2, 16, 4, 5}, {2, 16, 7}, {2, 16, 7}});        // that read a text
  AddAttention({.heads = 2}, {{1, 8, 2, 3, 2}, {1, 8, 3, 3}, {1, 8, 3, 3}});  // volumes
  AddAttention({.heads = 4, .causal = true}, {{1, 4 * 3 * 32, 130}});  // several tiles of both
  // Sequences beside each other in an image or a volume, such as windows.
  AddAttention({.heads = 3, .learned_bias = true, .axes = 1}, {{2, 3 * 24, 5, 9}});
  AddAttention({.heads = 4, .kv_heads = 2, .causal = true, .rotary_dims = 8, .axes = 1},
               {{2, 8 * 8, 3, 35}});
  AddAttention({.heads = 2, .axes = 1}, {{2, 16, 4, 5}, {2, 16, 4, 7}, {2, 16, 4, 7}});
  AddAttention({.heads = 2, .axes = 1},
               {{2, 16, 4, 5}, {2, 16, 4, 7}, {2, 16, 4, 7}, {2, 2, 4, 5, 7}});
  AddAttention({.heads = 2, .axes = 1}, {{2, 48, 4, 6}, {2, 1, 4, 6, 6}});
  AddAttention({.heads = 2, .axes = 1}, {{1, 16, 3, 2, 4}, {1, 16, 6, 5}, {1, 16, 6, 5}});
  AddAttention({.heads = 2, .axes = 2}, {{2, 48, 3, 2, 4}});
  // Windows of images, sequences and volumes with a bias of offsets, shifted along all axes, some
  // or none; the last ones with many images and with several tiles.
  AddAttention({.heads = 3, .axes = 1, .window_bias = WindowBias{.window = {2, 3}, .size = {4, 9}}},
               {{2, 3 * 12, 6, 6}});
  AddAttention({.heads = 2,
                .kv_heads = 1,
                .axes = 1,
                .window_bias = WindowBias{.window = 4, .size = 8, .shift = 2}},
               {{2, 4 * 8, 4, 16}});
  AddAttention({.heads = 2,
                .causal = true,
                .axes = 1,
                .window_bias = WindowBias{.window = 3, .size = {3, 6}, .shift = {0, 1}}},
               {{1, 16, 2, 9}, {1, 16, 2, 9}, {1, 8, 2, 9}});
  AddAttention({.heads = 2, .window_bias = WindowBias{.window = {3, 4}, .size = {3, 4}}},
               {{2, 3 * 16, 3, 4}});
  AddAttention({.heads = 2,
                .axes = 1,
                .window_bias = WindowBias{.window = 5, .size = Extents::Of({15}), .shift = 4}},
               {{3, 3 * 10, 3, 5}});
  AddAttention(
      {.heads = 1,
       .axes = 1,
       .window_bias = WindowBias{.window = {2, 3, 2}, .size = {4, 3, 4}, .shift = {1, 2, 1}}},
      {{2, 3 * 4, 4, 12}});
  AddAttention(
      {.heads = 3, .axes = 1, .window_bias = WindowBias{.window = 7, .size = 14, .shift = 3}},
      {{5, 3 * 3 * 32, 4, 49}});
  AddAttention(
      {.heads = 8, .axes = 1, .window_bias = WindowBias{.window = 8, .size = 8, .shift = 0}},
      {{1, 3 * 8 * 16, 1, 64}});
  // Gradients of a bias that images or heads share, of so much work that a CPU uses several
  // threads.
  AddAttention({.heads = 4, .kv_heads = 2, .learned_bias = true}, {{5, 8 * 32, 50}});
  AddAttention({.heads = 4}, {{5, 3 * 4 * 32, 50}, {5, 1, 50, 50}});
}

}  // namespace neap::testing
