// Into how many parts the sum over images is cut that is a 1x1 convolution's weight gradient.
//
// Each part adds up its share of the images in a copy of the gradient, round by round: one image of
// every part at a time. More parts fill the GPU, but each takes a copy's bytes of workspace.
//
//   264 wanted tiles, 4 in the gradient: 66 parts fill the GPU
//   images   128: 128 parts, 1 round          images 4096: 128 parts, 32 rounds
//   images   257: 86 parts, 3 rounds, of 86, 86 and 85 images
#pragma once

#include <cstdint>

namespace neap::cuda {

inline constexpr int64_t kTile = 128;         // of the products' result, per multiprocessor
inline constexpr int64_t kWantedTiles = 264;  // two per multiprocessor of a large GPU

// The smallest divisor of the number of images that fills the GPU, unless it takes twice the parts
// or more that are needed; then as many as make the rounds nearly even.
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
