// Volumes, such as the scans of a CT or MRI, and the class of each voxel.
//
// A volume is {C, D, H, W}. A .npy file of three axes has one channel, of four axes those of the
// first one. NIfTI counts x, y, z, and then further axes, and x varies fastest: W is x, H is y, D
// is z, and the others together are C. Voxels keep their order and their spacing: resampling to a
// common spacing and orientation is a matter of preparation.
//
//   ASSIGN_OR_RETURN(Volume scan, ReadVolume({"flair.nii.gz", "t1.nii.gz"}));  // of two channels
//   NormaliseVolume(scan);
//   ASSIGN_OR_RETURN(const VolumeLabels truth, ReadVolumeLabels("truth.nii.gz", /*classes=*/4));
//
// Labels may be stored as floating-point numbers, if they are whole. Voxels may not be infinite or
// NaN, as some programs leave them outside of what they look at: one alone would make its channel's
// mean, and with it the loss, NaN.
//
// *Errors*: those of NpyFile and of ReadNifti(); INVALID_ARGUMENT for another number of axes, and
// for channels that differ in their extents; DATA_LOSS naming the voxel for one that is not finite,
// and for a label that is not a class.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/vision/dataset.h"

namespace neap {

struct Volume {
  ImageShape shape;
  std::vector<float> values;  // C x D x H x W
};

struct VolumeLabels {
  ImageShape shape;             // of one channel
  std::vector<uint8_t> labels;  // D x H x W: classes from 0, or kIgnoredClass
};

// What the header of a file says.
struct VolumeForm {
  ImageShape shape;
  int64_t stored_bytes = 0;  // of all voxels in the file's type
  // Of memory that reading it takes, as a volume or as labels.
  int64_t reading_bytes() const {
    return stored_bytes + shape.elements() * static_cast<int64_t>(sizeof(float));
  }
};

// The suffixes of files that are read: ".npy", ".nii.gz", ".nii".
std::vector<std::string> VolumeSuffixes();

absl::StatusOr<VolumeForm> ReadVolumeForm(const std::string& path);

// One file with all channels, or a file for each.
absl::StatusOr<Volume> ReadVolume(const std::vector<std::string>& paths);

// Labels below 0 and `ignored` become kIgnoredClass. `classes` is at most kIgnoredClass.
absl::StatusOr<VolumeLabels> ReadVolumeLabels(const std::string& path, int64_t classes,
                                              std::optional<int32_t> ignored = std::nullopt);

// Each channel minus its mean, divided by its standard deviation, as nnU-Net's
// ZScoreNormalization over the whole volume. A channel of one value becomes 0.
void NormaliseVolume(Volume& volume);

}  // namespace neap
