#include "neap/layers/resize/permutations.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "neap/core/step/operands.h"
#include "neap/layers/channel_shuffle.h"
#include "neap/layers/resize/pixel_shuffle.h"
#include "neap/layers/shape/permute.h"
#include "neap/layers/shape/reshape.h"
#include "neap/layers/shape/roll.h"
#include "neap/layers/shape/tile.h"
#include "neap/layers/shape/windows.h"

namespace neap {
namespace {

using namespace operands;

// Numbers of axes, as they follow each other in memory.
using AxisOrder = absl::InlinedVector<size_t, Permutation::kMaxAxes>;
using AxisExtents = absl::InlinedVector<int64_t, Permutation::kMaxAxes>;

// A tensor of the extents in the order `from` becomes one in the order `to`, in which axes that
// `from` lacks repeat elements. Axes that stay neighbours are one. `first` has the first element of
// each axis, if it is not 0 for all.
Permutation Reordered(const AxisExtents& extents, const AxisOrder& from, const AxisOrder& to,
                      const AxisExtents& first = {}) {
  AxisExtents strides(extents.size(), 0);
  int64_t distance = 1;
  for (auto axis = from.rbegin(); axis != from.rend(); ++axis) {
    strides[*axis] = distance;
    distance *= extents[*axis];
  }
  Permutation permutation;
  permutation.count = 0;
  for (const size_t axis : to) {
    const Permutation::Axis next = {extents[axis], strides[axis], first.empty() ? 0 : first[axis]};
    if (next.extent == 1) continue;
    if (permutation.count > 0 && permutation.innermost().first == 0 && next.first == 0 &&
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

AxisOrder Numbers(int rank) {
  AxisOrder numbers(static_cast<size_t>(rank));
  std::iota(numbers.begin(), numbers.end(), size_t{0});
  return numbers;
}

// The axes 1, 2, ... of a tensor {N, C, H, W} as the layout has them, by what they are.
AxisOrder InMemory(Layout layout, const AxisOrder& axes) {
  return InMemory(layout, {axes[1]}, AxisOrder(axes.begin() + 2, axes.end()));
}

Permutation OfAxes(const Permute& permute, const TensorSpec& x, bool forward) {
  AxisOrder axes = {0};
  for (const int64_t axis : permute.axes) axes.push_back(static_cast<size_t>(axis));
  AxisOrder from = InMemory(x.layout, Numbers(x.shape.rank())), to = InMemory(x.layout, axes);
  if (!forward) std::swap(from, to);
  return Reordered(AxisExtents(x.shape.dims().begin(), x.shape.dims().end()), from, to);
}

// In channels-last, an axis of x is divided whose parts are channels and positions of y, or the
// other way round: in {N, channels, parts, positions}.
Permutation OfReshape(const TensorSpec& x, const TensorSpec& y, bool forward) {
  if (KeepsOrder(x, y)) return Reordered({x.elements()}, {0}, {0});
  const int64_t few = std::min(x.shape.c(), y.shape.c()), many = std::max(x.shape.c(), y.shape.c());
  const AxisExtents extents = {x.shape.n(), few, many / few,
                               std::min(x.shape.positions(), y.shape.positions())};
  const bool has_many = x.shape.c() == many;
  AxisOrder from = has_many ? AxisOrder{0, 3, 1, 2} : AxisOrder{0, 2, 3, 1};
  AxisOrder to = has_many ? AxisOrder{0, 2, 3, 1} : AxisOrder{0, 3, 1, 2};
  if (!forward) std::swap(from, to);
  return Reordered(extents, from, to);
}

// Behind N and C come the number of windows and the window's extent along each axis.
Permutation OfWindows(const Extents& window, const TensorSpec& image, bool to_windows) {
  AxisExtents extents = {image.shape.n(), image.shape.c()};
  AxisOrder windows, in_window, pixels;
  for (int i = 0; i < image.shape.spatial_axes(); ++i) {
    windows.push_back(extents.size());
    extents.push_back(image.shape[2 + i] / window[i]);
    in_window.push_back(extents.size());
    extents.push_back(window[i]);
    pixels.insert(pixels.end(), {windows.back(), in_window.back()});
  }
  windows.insert(windows.end(), in_window.begin(), in_window.end());
  AxisOrder from = InMemory(image.layout, {1}, pixels), to = InMemory(image.layout, {1}, windows);
  if (!to_windows) std::swap(from, to);
  return Reordered(extents, from, to);
}

Permutation OfRoll(const Roll& roll, const TensorSpec& x, bool forward) {
  const AxisExtents extents(x.shape.dims().begin(), x.shape.dims().end());
  AxisExtents first(extents.size(), 0);
  for (int i = 0; i < x.shape.spatial_axes(); ++i) {
    const auto axis = static_cast<size_t>(i) + 2;
    const int64_t shift = (roll.shift[i] % extents[axis] + extents[axis]) % extents[axis];
    first[axis] = forward ? (extents[axis] - shift) % extents[axis] : shift;
  }
  const AxisOrder order = InMemory(x.layout, Numbers(x.shape.rank()));
  return Reordered(extents, order, order, first);
}

// Axes 1 and 2 are the copies of the channels and the channels, then come those of each spatial
// axis.
Permutation OfTile(const Tile& tile, const TensorSpec& x) {
  AxisExtents extents = {x.shape.n(), tile.channels, x.shape.c()};
  AxisOrder pixels, tiled;
  for (int i = 0; i < x.shape.spatial_axes(); ++i) {
    pixels.push_back(extents.size() + 1);
    tiled.insert(tiled.end(), {extents.size(), pixels.back()});
    extents.push_back(tile.repeats[i]);
    extents.push_back(x.shape[2 + i]);
  }
  const AxisOrder from = InMemory(x.layout, {2}, pixels), to = InMemory(x.layout, {1, 2}, tiled);
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
  if (const auto* const permute = signature.layer.As<Permute>())
    return OfAxes(*permute, forward ? read : written, forward);
  if (signature.layer.As<Reshape>() != nullptr)
    return OfReshape(forward ? read : written, forward ? written : read, forward);
  if (const auto* const partition = signature.layer.As<WindowPartition>())
    return OfWindows(partition->window, forward ? read : written, forward);
  if (const auto* const merge = signature.layer.As<WindowMerge>())
    return OfWindows(merge->window, forward ? written : read, !forward);
  if (const auto* const roll = signature.layer.As<Roll>()) return OfRoll(*roll, read, forward);
  if (const auto* const tile = signature.layer.As<Tile>())
    return OfTile(*tile, forward ? read : written);
  const auto& unshuffle = *signature.layer.As<PixelUnshuffle>();
  return OfBlocks(unshuffle.factor, unshuffle.blocks_first, forward ? written : read, forward);
}

}  // namespace neap
