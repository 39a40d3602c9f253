#include "neap/nets/onnx/pixel_blocks.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace neap::nets {
namespace {

// The extents {N, C, r, r, H, W}, or with C behind the blocks, of images with these extents; and
// the order that makes {N, C, H, r, W, r} of them.
PixelBlocks InChannels(int64_t n, int64_t c, int64_t factor, absl::Span<const int64_t> small,
                       bool blocks_first) {
  const auto axes = std::ssize(small);
  PixelBlocks blocks = {.dims = std::vector<int64_t>(small.size(), factor), .order = {0}};
  blocks.dims.insert(blocks_first ? blocks.dims.end() : blocks.dims.begin(), c);
  blocks.dims.insert(blocks.dims.begin(), n);
  blocks.dims.insert(blocks.dims.end(), small.begin(), small.end());
  blocks.order.push_back(blocks_first ? 1 + axes : 1);
  for (int64_t i = 0; i < axes; ++i) {
    blocks.order.push_back(2 + axes + i);
    blocks.order.push_back(blocks_first ? 1 + i : 2 + i);
  }
  return blocks;
}

// What the Transpose makes of the blocks, and the order that makes these of it.
PixelBlocks Inverse(const PixelBlocks& blocks) {
  PixelBlocks inverse = {.dims = {}, .order = std::vector<int64_t>(blocks.order.size())};
  for (size_t i = 0; i < blocks.order.size(); ++i) {
    const auto from = static_cast<size_t>(blocks.order[i]);
    inverse.dims.push_back(blocks.dims[from]);
    inverse.order[from] = static_cast<int64_t>(i);
  }
  return inverse;
}

// Calls f(layer, blocks) for every layer that images of shape `x` could have these extents for.
template <typename F>
void ForEachShuffle(const Shape& x, const std::vector<int64_t>& dims, F f) {
  const auto axes = static_cast<size_t>(x.spatial_axes());
  if (axes == 0 || dims.size() != 2 + 2 * axes) return;
  const auto visit = [&](const auto& layer) {
    const bool is_one = layer.factor > 1 && layer.Specify({.inputs = {{.shape = x}}}).ok();
    if (is_one) f(Layer(layer), BlocksOf(layer, x));
  };
  for (const bool first : {false, true}) {
    visit(PixelShuffle{.factor = dims[first ? 1 : 2], .blocks_first = first});
    visit(PixelUnshuffle{.factor = dims[3], .blocks_first = first});
  }
}

}  // namespace

PixelBlocks BlocksOf(const PixelShuffle& shuffle, const Shape& x) {
  int64_t channels = x.c();
  for (int i = 0; i < x.spatial_axes(); ++i) channels /= shuffle.factor;
  return InChannels(x.n(), channels, shuffle.factor, x.spatial(), shuffle.blocks_first);
}

PixelBlocks BlocksOf(const PixelUnshuffle& unshuffle, const Shape& x) {
  std::vector<int64_t> small(x.spatial().begin(), x.spatial().end());
  for (int64_t& extent : small) extent /= unshuffle.factor;
  return Inverse(InChannels(x.n(), x.c(), unshuffle.factor, small, unshuffle.blocks_first));
}

bool AreBlocks(const Shape& x, const std::vector<int64_t>& dims) {
  bool are = false;
  ForEachShuffle(x, dims, [&](const Layer&, const PixelBlocks& of) { are |= of.dims == dims; });
  return are;
}

std::optional<Layer> ShuffleOf(const Shape& x, const PixelBlocks& blocks) {
  std::optional<Layer> found;
  ForEachShuffle(x, blocks.dims, [&](const Layer& layer, const PixelBlocks& of) {
    if (of == blocks) found = layer;
  });
  return found;
}

}  // namespace neap::nets
