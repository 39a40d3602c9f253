// The part of a volume that an example has: a random one for training, the middle for evaluation.
//
// Networks see patches, because volumes are larger than memory. Most voxels are background, so a
// share of the patches is drawn around a voxel of another class (nnU-Net, Isensee et al. 2021: a
// third): first the class, each as likely as the others that the volume has, then the voxel. Such a
// patch has it in the middle, unless it would reach beyond the volume, along one axis:
//
//   volume   |-----------o-------------|      o: the voxel
//   patch            |---o---|
//   volume   |-o-----------------------|
//   patch    |-o-----|                        moved to the border
//   volume       |---o---|
//   patch    |.......o.......|                larger than the volume: padded on both sides
//
// Each is mirrored or not along each axis. All of it is a pure function of the seed and of the
// position of the example in the infinite sequence of epochs.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "neap/core/data/volume.h"
#include "neap/core/vision/image/random_view.h"

namespace neap {

struct Patch {
  // Of D, H and W: the voxel of the volume where the patch begins, below 0 if it is padded there.
  std::array<int64_t, 3> begin = {};
  std::array<bool, 3> mirrored = {};
  friend bool operator==(const Patch&, const Patch&) = default;
};

// How many voxels of a volume are of each class, from 0.
std::vector<int64_t> CountClasses(const VolumeLabels& labels, int64_t classes);

// `counts` are CountClasses(labels). `shape`: the extents of the patch.
Patch DrawPatch(const RandomView& view, double foreground, const VolumeLabels& labels,
                const std::vector<int64_t>& counts, const ImageShape& shape);
Patch CentralPatch(const ImageShape& volume, const ImageShape& shape);

// `values`: C x D x H x W of the patch, 0 beyond the volume; `out`: D x H x W, kNoLabel there.
void CutPatch(const Volume& volume, const VolumeLabels& labels, const Patch& patch,
              const ImageShape& shape, float* values, int32_t* out);

}  // namespace neap
