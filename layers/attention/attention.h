// Scaled dot-product attention (Vaswani et al., 2017), as
// torch.nn.functional.scaled_dot_product_attention: every query position reads the values of all
// key positions, weighted by a softmax of its products with the keys.
//
//   step           reads                                   writes
//   forward        query, key, value, [bias]               y, lse (training)
//   backward_data  query, key, value, [bias], y, dy, lse   dquery, dkey, dvalue, [dbias]
//
//   S = scale query . key + bias  {heads, Tq, Tk}    y = softmax(S) . value    lse = log sum exp S
//
// S and its softmax, which are as large as a mask of all pairs of positions, exist in no memory
// but tile by tile: backward computes them anew from the inputs and lse (Dao et al., 2022). Nothing
// is in place, and a rerun computes what forward does.
//
// A position is a place along the spatial axes, outermost first. With `axes`, it is one along the
// last so many of them, and the others number sequences that do not see each other, such as windows
// (layers/shape/windows.h). Inputs, of one dtype and layout:
//
// query {N, heads * head_dim, Tq}, key {N, kv_heads * head_dim, Tk} and value {N, kv_heads *
// value_dim, Tk}, or one tensor {N, (heads + 2 * kv_heads) * head_dim, T} that has all three behind
// each other in its channels; behind them, if there is one input more, a bias {N, heads or 1, Tq,
// Tk} of each image, or of S sequences in an image {N, heads or 1, S, Tq, Tk}.
//
// Images {N, C, H, W} and volumes are taken, too: then Tq is H * W, say. y has the channels heads *
// value_dim and the positions of the query. Where no layer needs dbias, backward does not write it.
//
// params, with `learned_bias`: 0 bias {heads, Tq, Tk}, fp32, which begins at 0 and is added to S of
// every image and sequence; with `window_bias`: 0 relative_position_bias_table {offsets, heads},
// fp32, which begins with a standard deviation of 0.02. saved: 0 lse {N, S * heads, Tq}, fp32.
// Images are independent, and the gradient of the parameter is a sum over them, to which kernels of
// backward_data can add.
//
// A window_bias is that of a Swin transformer (Liu et al., 2021), of which sequences are the
// windows of an image and positions those in a window, both row by row (WindowPartition). What a
// head adds to the score of a query and a key is an element of the table, which depends on how far
// the query is from the key: row (dy + window.h - 1) * (2 window.w - 1) + dx + window.w - 1. If the
// image is rolled by -shift, its last windows along an axis hold positions of its end and, in their
// last `shift`, of its beginning. -100 is added to the score of two that are not of the same, as
// torchvision does: kernels know the windows by their place in the image, and no mask is stored.
//
// A query whose S are all -infinity has y NaN, as a softmax of them, and backward makes NaN of dkey
// and dvalue of all positions of its head. So padding is masked by a bias that is finite, such as
// -1e4: a query without any other key then reads the mean of what is masked.
//
//   const std::string qkv = net.Add("qkv", Convolution{.out_channels = 3 * 768}, {x});
//   x = net.Add("attention", Attention{.heads = 12, .causal = true}, {qkv});
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "neap/core/step/layer.h"
#include "neap/core/step/window.h"

namespace neap {

// See above. INVALID_ARGUMENT unless the windows fill an image of this size, of which there are as
// many extents as it has numbers, or two, and shifts are not negative and less than the windows.
struct WindowBias {
  Extents window = 1;
  Extents size = 1;   // of the image, as WindowMerge::size
  Extents shift = 0;  // by which positions were moved towards the image's beginning
  friend bool operator==(const WindowBias&, const WindowBias&) = default;
};

// Errors: INVALID_ARGUMENT unless the inputs are as above and the fields suit them.
struct Attention {
  static constexpr std::string_view kType = "attention";
  int64_t heads = 1;
  // Groups of heads / kv_heads heads, one behind the other, share a head of key and value
  // (Ainslie et al., 2023). 0: as many as heads.
  int64_t kv_heads = 0;
  bool causal = false;  // query position i reads key positions 0 to i only
  float scale = 0;      // 0: 1 / sqrt(head_dim)
  bool learned_bias = false;
  // The first dimensions of each head of query and key that are rotated by their position, an even
  // number (Su et al., 2021): dimensions d and d + rotary_dims / 2, for d below rotary_dims / 2,
  // are a pair of coordinates (GPT-NeoX), which position t rotates by the angle
  // t * rotary_base^(-2 d / rotary_dims). 0: none.
  int64_t rotary_dims = 0;
  float rotary_base = 10000;
  int64_t axes = 0;  // the spatial axes along which positions lie, the last ones; 0: all
  std::optional<WindowBias> window_bias = std::nullopt;  // without any other bias

  int64_t kv_heads_or_heads() const { return kv_heads == 0 ? heads : kv_heads; }
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const Attention&, const Attention&) = default;
};

}  // namespace neap
