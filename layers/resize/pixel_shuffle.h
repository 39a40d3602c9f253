// PixelShuffle: channels become blocks of pixels, as torch.nn.PixelShuffle; PixelUnshuffle is the
// inverse, as torch.nn.PixelUnshuffle. Of images, sequences and volumes.
//
//   step           reads  writes
//   forward        x      y
//   backward_data  dy     dx      the inverse permutation
//
// With factor r, PixelShuffle makes {N, C, H r, W r} of {N, C r r, H, W}, and PixelUnshuffle the
// other way round. Sequences have r channels for one, volumes r r r.
//
// Each of r r channels is one pixel (i, j) of a block. The channels of one channel c of the large
// image are neighbours, c r r + i r + j, or with `blocks_first` those of one pixel are, (i r + j) C
// + c: the order of ONNX's SpaceToDepth, and of its DepthToSpace in mode DCR.
#pragma once

#include <cstdint>
#include <string>

#include "neap/core/step/layer.h"

namespace neap {

// INVALID_ARGUMENT unless the number of channels is a multiple of that of a block's pixels.
struct PixelShuffle {
  static constexpr std::string_view kType = "pixel_shuffle";
  int64_t factor = 2;
  bool blocks_first = false;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  // blocks_first only if it is set.
  std::string Parameters() const;
  friend bool operator==(const PixelShuffle&, const PixelShuffle&) = default;
};

// INVALID_ARGUMENT unless every spatial extent is a multiple of the factor.
struct PixelUnshuffle {
  static constexpr std::string_view kType = "pixel_unshuffle";
  int64_t factor = 2;
  bool blocks_first = false;
  absl::StatusOr<LayerSpec> Specify(const LayerContext& context) const;
  // blocks_first only if it is set.
  std::string Parameters() const;
  friend bool operator==(const PixelUnshuffle&, const PixelUnshuffle&) = default;
};

}  // namespace neap
