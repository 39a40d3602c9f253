#include "neap/core/data/volume.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/data/label_classes.h"
#include "neap/core/data/nifti.h"
#include "neap/core/data/npy.h"
#include "neap/core/program/feeds.h"

namespace neap {
namespace {

bool IsNpy(const std::string& path) { return absl::EndsWithIgnoreCase(path, ".npy"); }

absl::StatusOr<ImageShape> ShapeOfNpy(const NpyFile& file) {
  const std::vector<int64_t>& extents = file.extents();
  if (extents.size() == 3) return ImageShape{1, extents[1], extents[2], extents[0]};
  if (extents.size() == 4) return ImageShape{extents[0], extents[2], extents[3], extents[1]};
  return absl::InvalidArgumentError(absl::StrCat(file.path(), ": the array has ", extents.size(),
                                                 " axes; a volume has 3, or 4 with channels"));
}

absl::StatusOr<Volume> ReadVolumeFile(const std::string& path) {
  if (!IsNpy(path)) return ReadNifti(path);
  ASSIGN_OR_RETURN(const NpyFile file, NpyFile::Open(path));
  Volume volume;
  ASSIGN_OR_RETURN(volume.shape, ShapeOfNpy(file));
  ASSIGN_OR_RETURN(volume.values, file.ReadFloats());
  return volume;
}

// "slice 3, row 1, column 0"
std::string PlaceOf(int64_t voxel, const ImageShape& shape) {
  return absl::StrCat("slice ", voxel / (shape.h * shape.w), ", row ", voxel / shape.w % shape.h,
                      ", column ", voxel % shape.w);
}

// NIfTI files often have labels as floating-point numbers.
absl::StatusOr<VolumeLabels> ReadNiftiLabels(const std::string& path) {
  constexpr float kMaxExact = 1 << 24;  // up to which floats have all integers
  ASSIGN_OR_RETURN(const Volume volume, ReadNifti(path));
  VolumeLabels labels = {.shape = volume.shape};
  labels.labels.reserve(volume.values.size());
  for (const float value : volume.values) {
    if (!(std::abs(value) <= kMaxExact) || value != std::floor(value)) {
      return absl::DataLossError(absl::StrCat(path, ": ",
                                              PlaceOf(std::ssize(labels.labels), volume.shape),
                                              ": ", value, " is not the number of a class"));
    }
    labels.labels.push_back(static_cast<int32_t>(value));
  }
  return labels;
}

absl::StatusOr<VolumeLabels> ReadLabelFile(const std::string& path) {
  if (!IsNpy(path)) return ReadNiftiLabels(path);
  ASSIGN_OR_RETURN(const NpyFile file, NpyFile::Open(path));
  VolumeLabels labels;
  ASSIGN_OR_RETURN(labels.shape, ShapeOfNpy(file));
  ASSIGN_OR_RETURN(labels.labels, file.ReadIntegers());
  return labels;
}

}  // namespace

std::vector<std::string> VolumeSuffixes() { return {".npy", ".nii.gz", ".nii"}; }

absl::StatusOr<Volume> ReadVolume(const std::vector<std::string>& paths) {
  if (paths.empty()) return absl::InvalidArgumentError("no file with a volume is given");
  ASSIGN_OR_RETURN(Volume volume, ReadVolumeFile(paths.front()));
  for (size_t i = 1; i < paths.size(); ++i) {
    ASSIGN_OR_RETURN(const Volume channel, ReadVolumeFile(paths[i]));
    ImageShape together = channel.shape;
    together.c += volume.shape.c;
    volume.shape.c = together.c;
    if (volume.shape != together) {
      return absl::InvalidArgumentError(
          absl::StrCat(paths[i], ": ", ToString(channel.shape), " voxels, unlike ", paths.front()));
    }
    volume.values.insert(volume.values.end(), channel.values.begin(), channel.values.end());
  }
  return volume;
}

absl::StatusOr<VolumeLabels> ReadVolumeLabels(const std::string& path, int64_t classes,
                                              std::optional<int32_t> ignored) {
  ASSIGN_OR_RETURN(VolumeLabels labels, ReadLabelFile(path));
  if (labels.shape.c != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the labels have ", labels.shape.c, " channels"));
  }
  for (size_t i = 0; i < labels.labels.size(); ++i) {
    int32_t& label = labels.labels[i];
    if (label < 0 || label == kIgnoredClass || label == ignored) {
      label = kNoLabel;
    } else if (label >= classes) {
      return absl::DataLossError(absl::StrCat(path, ": ",
                                              PlaceOf(static_cast<int64_t>(i), labels.shape),
                                              ": label ", label, " of ", classes, " classes"));
    }
  }
  return labels;
}

void NormaliseVolume(Volume& volume) {
  const int64_t voxels = volume.shape.positions();
  for (int64_t c = 0; c < volume.shape.c; ++c) {
    float* const values = volume.values.data() + c * voxels;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < voxels; ++i) sum += static_cast<double>(values[i]);
    const double mean = sum / static_cast<double>(voxels);
    for (int64_t i = 0; i < voxels; ++i) {
      const double distance = static_cast<double>(values[i]) - mean;
      squares += distance * distance;
    }
    constexpr double kMinDeviation = 1e-8;  // nnU-Net's
    const double deviation =
        std::max(std::sqrt(squares / static_cast<double>(voxels)), kMinDeviation);
    for (int64_t i = 0; i < voxels; ++i)
      values[i] = static_cast<float>((static_cast<double>(values[i]) - mean) / deviation);
  }
}

}  // namespace neap
