// PixelShuffle and PixelUnshuffle as ONNX's graphs have them where there is no operator for them: a
// Reshape that divides axes into blocks, a Transpose, and a Reshape that joins axes.
//
//   PixelShuffle     {N, C r r, H, W}  ->  {N, C, r, r, H, W}  ->  {N, C, H, r, W, r}  ->  ...
//   PixelUnshuffle   {N, C, H r, W r}  ->  {N, C, H, r, W, r}  ->  {N, C, r, r, H, W}  ->  ...
//
// With `blocks_first`, r, r comes before C in {N, C, r, r, H, W}.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "neap/core/base/tensor.h"
#include "neap/core/step/layer.h"
#include "neap/layers/resize/pixel_shuffle.h"
#include "neap/nets/onnx/axes/arrangement.h"

namespace neap::nets {

struct PixelBlocks {
  std::vector<int64_t> dims;   // before the Transpose
  std::vector<int64_t> order;  // in which it puts them
  friend bool operator==(const PixelBlocks&, const PixelBlocks&) = default;
};
// Those of a layer that reads images {N, C, H, W}, which must suit it.
PixelBlocks BlocksOf(const PixelShuffle& shuffle, const Shape& x);
PixelBlocks BlocksOf(const PixelUnshuffle& unshuffle, const Shape& x);

// The layer of which `target`, a tensor of axes {N, C, H, W}, say, is the output, where it is seen
// as one of the layer's input. Absent if there is none.
std::optional<Layer> PixelShuffleOf(const Arrangement& target);

}  // namespace neap::nets
