// Layers that give the elements of images other places, or repeat them, as functions of their
// fields.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <utility>
#include <vector>

#include "apps/python/bindings.h"
#include "apps/python/layers/extent.h"
#include "neap/core/step/layer.h"
#include "neap/layers/shape/permute.h"
#include "neap/layers/shape/reshape.h"
#include "neap/layers/shape/roll.h"
#include "neap/layers/shape/tile.h"
#include "neap/layers/shape/windows.h"

namespace neap::python {

namespace nb = nanobind;
using nb::literals::operator""_a;

void BindShapeLayers(nb::module_& module) {
  module.def(
      "Reshape", [](std::vector<int64_t> to) { return Layer(Reshape{.to = std::move(to)}); },
      "to"_a,
      "As torch.reshape, to the extents behind the batch's; 0 stands for that of the same axis, "
      "and "
      "one may be -1.");
  module.def(
      "Permute", [](std::vector<int64_t> axes) { return Layer(Permute{.axes = std::move(axes)}); },
      "axes"_a,
      "As torch.permute, with the axes behind the batch's: (2, 1) swaps those of sequences.");
  module.def(
      "WindowPartition",
      [](const Extent& window) { return Layer(WindowPartition{.window = ToExtent(window)}); },
      "window"_a,
      "Windows that do not overlap, as an axis of their own: {N, C, windows, positions} of {N, C, "
      "H, "
      "W}.");
  module.def(
      "WindowMerge",
      [](const Extent& window, const Extent& size) {
        return Layer(WindowMerge{.window = ToExtent(window), .size = ToExtent(size)});
      },
      "window"_a, "size"_a, "The inverse of WindowPartition, of an image of `size`.");
  module.def(
      "Roll", [](const Extent& shift) { return Layer(Roll{.shift = ToExtent(shift)}); }, "shift"_a,
      "As torch.roll along the spatial axes.");
  module.def(
      "Tile",
      [](const Extent& repeats, int64_t channels) {
        return Layer(Tile{.repeats = ToExtent(repeats), .channels = channels});
      },
      "repeats"_a = 1, "channels"_a = 1,
      "As torch.tile: `repeats` times along the spatial axes, and all channels `channels` times.");
}

}  // namespace neap::python
