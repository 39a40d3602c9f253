// The number of parts into which a 1x1 convolution's weight gradient, a sum over images, is split.
//
// Each part adds up its share of the images in its own copy of the gradient, in rounds of one image
// per part. More parts fill the GPU, but each needs workspace for its copy.
//
//   264 wanted tiles, 4 in the gradient: 66 parts fill the GPU
//   images   128: 128 parts, 1 round          images 4096: 128 parts, 32 rounds
//   images   257: 86 parts, 3 rounds, of 86, 86 and 85 images
#pragma once

#include <cstdint>

namespace neap::cuda {

inline constexpr int64_t kTile = 128;         // side of a multiprocessor's tile of the result
inline constexpr int64_t kWantedTiles = 264;  // two per multiprocessor of a large GPU

// The smallest divisor of the number of images that fills the GPU. If it is at least twice the
// number of parts needed, the number that makes the rounds nearly even instead.
constexpr int64_t ImageParts(int64_t images, int64_t in_channels, int64_t out_channels) {
  const auto ceil_div = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t tiles = ceil_div(in_channels, kTile) * ceil_div(out_channels, kTile);
  const int64_t needed = ceil_div(kWantedTiles, tiles);
  if (images <= needed) return images;
  for (int64_t parts = needed; parts < 2 * needed; ++parts) {
    if (images % parts == 0) return parts;
  }
  return ceil_div(images, images / needed);
}

}  // namespace neap::cuda
