#include "neap/core/data/patch.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>

#include "neap/core/base/philox.h"
#include "neap/core/base/random_index.h"
#include "neap/core/data/label_classes.h"
#include "neap/core/program/feeds.h"

namespace neap {
namespace {

// Distinct from the streams of Permutation, which are epochs, from that of Augment (2^63) and from
// those of random_view.cc behind it.
constexpr uint64_t kPatchStreams = (uint64_t{1} << 63) + (uint64_t{1} << 32);
constexpr uint64_t kChoiceStream = kPatchStreams;      // whether of foreground, and of which class
constexpr uint64_t kPlaceStream = kPatchStreams + 1;   // D and H, or the voxel
constexpr uint64_t kColumnStream = kPatchStreams + 2;  // W, and what is mirrored

using PatchAxes = std::array<int64_t, 3>;

PatchAxes PatchAxesOf(const ImageShape& shape) { return {shape.d, shape.h, shape.w}; }

PhiloxBlock DrawAt(const RandomView& view, uint64_t stream) {
  return Philox(
      {.key = view.seed, .stream = stream, .position = static_cast<uint64_t>(view.position)});
}

// Where a patch begins that is larger than the volume, or in its middle.
int64_t CentralBegin(int64_t volume, int64_t patch) {
  return volume >= patch ? (volume - patch) / 2 : -((patch - volume) / 2);
}

int32_t LabelOf(uint8_t stored) { return stored == kIgnoredClass ? kNoLabel : stored; }

// The place of voxel number `rank` among those of the class.
int64_t VoxelOf(const VolumeLabels& labels, int32_t label, int64_t rank) {
  for (size_t i = 0; i < labels.labels.size(); ++i) {
    if (labels.labels[i] == label && rank-- == 0) return static_cast<int64_t>(i);
  }
  return 0;
}

// The volume's index for each index of the patch along an axis, or -1 beyond it.
std::vector<int64_t> Sources(const Patch& patch, size_t axis, int64_t volume, int64_t extent) {
  std::vector<int64_t> sources(static_cast<size_t>(extent));
  for (int64_t i = 0; i < extent; ++i) {
    const int64_t source = patch.begin[axis] + (patch.mirrored[axis] ? extent - 1 - i : i);
    sources[static_cast<size_t>(i)] = source >= 0 && source < volume ? source : -1;
  }
  return sources;
}

// A plane of depth x height x width becomes one of the sources' numbers, each as `convert` says.
template <typename Stored, typename Value, typename Convert>
void CutPlane(const Stored* from, const ImageShape& volume,
              const std::array<std::vector<int64_t>, 3>& sources, Value outside,
              const Convert& convert, Value* to) {
  for (const int64_t z : sources[0]) {
    for (const int64_t y : sources[1]) {
      if (z < 0 || y < 0) {
        to = std::fill_n(to, sources[2].size(), outside);
        continue;
      }
      const Stored* const row = from + (z * volume.h + y) * volume.w;
      for (const int64_t x : sources[2]) *to++ = x < 0 ? outside : convert(row[x]);
    }
  }
}

}  // namespace

std::vector<int64_t> CountClasses(const VolumeLabels& labels, int64_t classes) {
  std::vector<int64_t> counts(static_cast<size_t>(classes));
  for (const uint8_t label : labels.labels) {
    if (label != kIgnoredClass) ++counts[label];
  }
  return counts;
}

Patch DrawPatch(const RandomView& view, double foreground, const VolumeLabels& labels,
                const std::vector<int64_t>& counts, const ImageShape& shape) {
  const PhiloxBlock choice = DrawAt(view, kChoiceStream), place = DrawAt(view, kPlaceStream),
                    column = DrawAt(view, kColumnStream);
  const PatchAxes volume = PatchAxesOf(labels.shape), extents = PatchAxesOf(shape);
  std::vector<int32_t> present;  // classes other than 0
  for (size_t c = 1; c < counts.size(); ++c) {
    if (counts[c] > 0) present.push_back(static_cast<int32_t>(c));
  }
  Patch patch;
  for (size_t axis = 0; axis < 3; ++axis) patch.mirrored[axis] = (column[2] >> axis & 1) == 1;
  if (!present.empty() && static_cast<double>(ToUnitFloat(choice[0])) < foreground) {
    const auto chosen = static_cast<size_t>(RandomIndex(choice[1], choice[2], std::ssize(present)));
    const int32_t label = present[chosen];
    const int64_t rank = RandomIndex(place[0], place[1], counts[static_cast<size_t>(label)]);
    const int64_t voxel = VoxelOf(labels, label, rank);
    const PatchAxes at = {voxel / (volume[1] * volume[2]), voxel / volume[2] % volume[1],
                          voxel % volume[2]};
    for (size_t axis = 0; axis < 3; ++axis) patch.begin[axis] = at[axis] - extents[axis] / 2;
  } else {
    const std::array<std::array<uint32_t, 2>, 3> bits = {
        {{place[0], place[1]}, {place[2], place[3]}, {column[0], column[1]}}};
    for (size_t axis = 0; axis < 3; ++axis) {
      const int64_t places = std::max<int64_t>(volume[axis] - extents[axis], 0) + 1;
      patch.begin[axis] = RandomIndex(bits[axis][0], bits[axis][1], places);
    }
  }
  for (size_t axis = 0; axis < 3; ++axis) {
    patch.begin[axis] =
        volume[axis] >= extents[axis]
            ? std::clamp<int64_t>(patch.begin[axis], 0, volume[axis] - extents[axis])
            : CentralBegin(volume[axis], extents[axis]);
  }
  return patch;
}

Patch CentralPatch(const ImageShape& volume, const ImageShape& shape) {
  return {.begin = {CentralBegin(volume.d, shape.d), CentralBegin(volume.h, shape.h),
                    CentralBegin(volume.w, shape.w)}};
}

void CutPatch(const Volume& volume, const VolumeLabels& labels, const Patch& patch,
              const ImageShape& shape, float* values, int32_t* out) {
  const PatchAxes from = PatchAxesOf(volume.shape), to = PatchAxesOf(shape);
  std::array<std::vector<int64_t>, 3> sources;
  for (size_t axis = 0; axis < 3; ++axis)
    sources[axis] = Sources(patch, axis, from[axis], to[axis]);
  for (int64_t c = 0; c < shape.c; ++c) {
    CutPlane(volume.values.data() + c * volume.shape.positions(), volume.shape, sources, 0.0F,
             std::identity(), values + c * shape.positions());
  }
  CutPlane(labels.labels.data(), volume.shape, sources, kNoLabel, LabelOf, out);
}

}  // namespace neap
