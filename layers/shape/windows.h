// Windows of images that do not overlap, as an axis of their own: WindowPartition makes {N, C,
// windows, positions} of an image {N, C, H, W}, or of a sequence or volume, and WindowMerge is the
// inverse.
//
//   step           reads  writes
//   forward        x      y
//   backward_data  dy     dx      the inverse permutation
//
// Windows, and the positions in each, follow each other row by row. N stays the batch, since a
// network runs in parts of it: what a Swin transformer does with N * windows images of one window
// each, an attention does along the last axis alone (Attention::axes), for every window by itself.
//
//   x = net.Add("rolled", Roll{.shift = -3}, {x});
//   x = net.Add("windows", WindowPartition{.window = 7}, {x});  // {N, C, 64, 49} of 56 x 56
//   const WindowBias bias = {.window = 7, .size = 56, .shift = 3};
//   x = net.Add("attention", Attention{.heads = 3, .axes = 1, .window_bias = bias}, {x});
//   x = net.Add("merged", WindowMerge{.window = 7, .size = 56}, {x});
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "neap/core/step/layer.h"
#include "neap/core/step/window.h"

namespace neap {

// INVALID_ARGUMENT unless every spatial extent is a multiple of the window's.
struct WindowPartition {
  static constexpr std::string_view kType = "window_partition";
  Extents window = 1;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const WindowPartition&, const WindowPartition&) = default;
};

// `size` has the extents of the image, of which there are as many as it has numbers, or two.
// INVALID_ARGUMENT unless these are multiples of the window's, and x has the windows of such an
// image.
struct WindowMerge {
  static constexpr std::string_view kType = "window_merge";
  Extents window = 1;
  Extents size = 1;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  std::string Parameters() const;
  friend bool operator==(const WindowMerge&, const WindowMerge&) = default;
};

// {windows, positions} of an image of these extents. Errors: INVALID_ARGUMENT if the windows do not
// fill it.
absl::StatusOr<std::vector<int64_t>> WindowsOf(const Extents& window,
                                               absl::Span<const int64_t> image);

}  // namespace neap
