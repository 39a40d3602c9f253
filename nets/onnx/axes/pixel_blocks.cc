#include "neap/nets/onnx/axes/pixel_blocks.h"

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

// Whether the layer makes the target of its input.
template <typename Shuffle>
bool Makes(const Shuffle& shuffle, const Arrangement& target) {
  const std::vector<int64_t>& layer = target.layer();
  const Shape x(Shape::Dims(layer.begin(), layer.end()));
  if (shuffle.factor < 2 || !shuffle.Specify({.inputs = {{.shape = x}}}).ok()) return false;
  const PixelBlocks blocks = BlocksOf(shuffle, x);
  const std::optional<Arrangement> divided = Arrangement::OfLayer(layer).Reshaped(blocks.dims);
  if (!divided.has_value()) return false;
  return divided->Transposed(blocks.order).Reshaped(target.dims()) == target;
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

std::optional<Layer> PixelShuffleOf(const Arrangement& target) {
  if (target.rank() < 3 || target.layer().size() != target.rank()) return std::nullopt;
  const int64_t before = target.layer()[2], after = target.dims()[2];
  for (const bool first : {false, true}) {
    const PixelShuffle shuffle = {.factor = after / before, .blocks_first = first};
    if (Makes(shuffle, target)) return shuffle;
    const PixelUnshuffle unshuffle = {.factor = before / after, .blocks_first = first};
    if (Makes(unshuffle, target)) return unshuffle;
  }
  return std::nullopt;
}

}  // namespace neap::nets
