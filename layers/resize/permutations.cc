#include "neap/layers/resize/permutations.h"

#include <cstddef>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "neap/core/step/operands.h"
#include "neap/layers/channel_shuffle.h"
#include "neap/layers/resize/pixel_shuffle.h"

namespace neap {
namespace {

using namespace operands;

// Numbers of axes, as they follow each other in memory.
using AxisOrder = absl::InlinedVector<size_t, Permutation::kMaxAxes>;
using AxisExtents = absl::InlinedVector<int64_t, Permutation::kMaxAxes>;

// A tensor of the extents in the order `from` becomes one in the order `to`. Axes that stay
// neighbours are one.
Permutation Reordered(const AxisExtents& extents, const AxisOrder& from, const AxisOrder& to) {
  AxisExtents strides(extents.size());
  int64_t distance = 1;
  for (auto axis = from.rbegin(); axis != from.rend(); ++axis) {
    strides[*axis] = distance;
    distance *= extents[*axis];
  }
  Permutation permutation;
  permutation.count = 0;
  for (const size_t axis : to) {
    const Permutation::Axis next = {extents[axis], strides[axis]};
    if (next.extent == 1) continue;
    if (permutation.count > 0 &&
        permutation.innermost().stride == SaturatingProduct(next.extent, next.stride)) {
      Permutation::Axis& last = permutation.axes[static_cast<size_t>(permutation.count) - 1];
      last = {last.extent * next.extent, next.stride};
    } else {
      permutation.axes[static_cast<size_t>(permutation.count++)] = next;
    }
  }
  if (permutation.count == 0) permutation.count = 1;  // one element
  return permutation;
}

// {n} and the channels and positions, as the layout has them.
AxisOrder InMemory(Layout layout, const AxisOrder& channels, const AxisOrder& positions) {
  const bool last = layout == Layout::kChannelsLast;
  AxisOrder order = {0};
  for (const AxisOrder* part : {last ? &positions : &channels, last ? &channels : &positions})
    order.insert(order.end(), part->begin(), part->end());
  return order;
}

// Axes 1 and 2 are the groups of x and the channels in them.
Permutation OfChannels(const ChannelShuffle& shuffle, const TensorSpec& read, bool forward) {
  const AxisExtents extents = {read.shape.n(), shuffle.groups, read.shape.c() / shuffle.groups,
                               read.shape.positions()};
  AxisOrder from = InMemory(read.layout, {1, 2}, {3}), to = InMemory(read.layout, {2, 1}, {3});
  if (!forward) std::swap(from, to);
  return Reordered(extents, from, to);
}

// Axis 1 is the channels of the large image, then come the axes in a block and those of blocks.
// `deep` has the pixels of blocks as channels.
Permutation OfBlocks(int64_t factor, bool blocks_first, const TensorSpec& deep, bool to_deep) {
  const auto axes = static_cast<size_t>(deep.shape.spatial_axes());
  AxisExtents extents = {deep.shape.n(), deep.shape.c()};
  AxisOrder in_block, of_blocks, pixels;
  for (size_t i = 0; i < axes; ++i) {
    extents.push_back(factor);
    extents[1] /= factor;
    in_block.push_back(2 + i);
    of_blocks.push_back(2 + axes + i);
    pixels.insert(pixels.end(), {of_blocks.back(), in_block.back()});
  }
  extents.insert(extents.end(), deep.shape.spatial().begin(), deep.shape.spatial().end());
  AxisOrder channels = in_block;
  channels.insert(blocks_first ? channels.end() : channels.begin(), 1);
  AxisOrder from = InMemory(deep.layout, channels, of_blocks);
  AxisOrder to = InMemory(deep.layout, {1}, pixels);
  if (to_deep) std::swap(from, to);
  return Reordered(extents, from, to);
}

}  // namespace

Permutation PermutationOf(const StepSignature& signature) {
  const bool forward = signature.phase == Phase::kForward;
  const TensorSpec& read = signature.Spec(forward ? X() : Dy());
  const TensorSpec& written = signature.Spec(forward ? Y() : Dx());
  if (const auto* const channels = signature.layer.As<ChannelShuffle>())
    return OfChannels(*channels, read, forward);
  if (const auto* const shuffle = signature.layer.As<PixelShuffle>())
    return OfBlocks(shuffle->factor, shuffle->blocks_first, forward ? read : written, !forward);
  const auto& unshuffle = *signature.layer.As<PixelUnshuffle>();
  return OfBlocks(unshuffle.factor, unshuffle.blocks_first, forward ? written : read, forward);
}

}  // namespace neap
