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

// "slice 3, row 1, column 0", of a volume with several channels "channel 1, slice 3, ..."
std::string PlaceOf(int64_t voxel, const ImageShape& shape) {
  return absl::StrCat(shape.c == 1 ? "" : absl::StrCat("channel ", voxel / shape.positions(), ", "),
                      "slice ", voxel / (shape.h * shape.w) % shape.d, ", row ",
                      voxel / shape.w % shape.h, ", column ", voxel % shape.w);
}

absl::Status CheckFinite(const Volume& volume, const std::string& path) {
  const auto bad = std::find_if(volume.values.begin(), volume.values.end(),
                                [](float value) { return !std::isfinite(value); });
  if (bad == volume.values.end()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      path, ": ", PlaceOf(bad - volume.values.begin(), volume.shape), ": the voxel is ", *bad,
      "; a volume is normalised by its mean, which has no value then: give such voxels one"));
}

absl::StatusOr<Volume> ReadVolumeFile(const std::string& path) {
  Volume volume;
  if (IsNpy(path)) {
    ASSIGN_OR_RETURN(const NpyFile file, NpyFile::Open(path));
    ASSIGN_OR_RETURN(volume.shape, ShapeOfNpy(file));
    ASSIGN_OR_RETURN(volume.values, file.ReadFloats());
  } else {
    ASSIGN_OR_RETURN(volume, ReadNifti(path));
  }
  RETURN_IF_ERROR(CheckFinite(volume, path));
  return volume;
}

bool IsWhole(float value) {
  constexpr float kMaxExact = 1 << 24;  // up to which floats have all integers
  return std::abs(value) <= kMaxExact && value == std::floor(value);
}
constexpr bool IsWhole(int32_t /*value*/) { return true; }

template <typename Value>
absl::StatusOr<VolumeLabels> ToLabels(const std::string& path, const ImageShape& shape,
                                      const std::vector<Value>& values, int64_t classes,
                                      std::optional<int32_t> ignored) {
  if (shape.c != 1)
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the labels have ", shape.c, " channels"));
  VolumeLabels labels = {.shape = shape, .labels = {}};
  labels.labels.reserve(values.size());
  for (const Value value : values) {
    const bool is_whole = IsWhole(value);
    const int32_t label = is_whole ? static_cast<int32_t>(value) : 0;
    const bool is_ignored = label < 0 || label == kIgnoredClass || label == ignored;
    if (!is_whole || (label >= classes && !is_ignored)) {
      const std::string place =
          absl::StrCat(path, ": ", PlaceOf(std::ssize(labels.labels), shape), ": ");
      return absl::DataLossError(
          is_whole ? absl::StrCat(place, "label ", label, " of ", classes, " classes")
                   : absl::StrCat(place, value, " is not the number of a class"));
    }
    labels.labels.push_back(static_cast<uint8_t>(is_ignored ? kIgnoredClass : label));
  }
  return labels;
}

}  // namespace

std::vector<std::string> VolumeSuffixes() { return {".npy", ".nii.gz", ".nii"}; }

absl::StatusOr<Volume> ReadVolume(const std::vector<std::string>& paths) {
  if (paths.empty()) return absl::InvalidArgumentError("no file with a volume is given");
  ASSIGN_OR_RETURN(Volume volume, ReadVolumeFile(paths.front()));
  volume.values.reserve(volume.values.size() * paths.size());
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

absl::StatusOr<VolumeForm> ReadVolumeForm(const std::string& path) {
  if (!IsNpy(path)) return ReadNiftiForm(path);
  ASSIGN_OR_RETURN(const NpyFile file, NpyFile::Open(path));
  ASSIGN_OR_RETURN(const ImageShape shape, ShapeOfNpy(file));
  return VolumeForm{.shape = shape, .stored_bytes = shape.elements() * file.header().element_bytes};
}

absl::StatusOr<VolumeLabels> ReadVolumeLabels(const std::string& path, int64_t classes,
                                              std::optional<int32_t> ignored) {
  if (!IsNpy(path)) {
    ASSIGN_OR_RETURN(const Volume volume, ReadNifti(path));
    return ToLabels(path, volume.shape, volume.values, classes, ignored);
  }
  ASSIGN_OR_RETURN(const NpyFile file, NpyFile::Open(path));
  ASSIGN_OR_RETURN(const ImageShape shape, ShapeOfNpy(file));
  if (file.header().kind == 'f') {
    ASSIGN_OR_RETURN(const std::vector<float> values, file.ReadFloats());
    return ToLabels(path, shape, values, classes, ignored);
  }
  ASSIGN_OR_RETURN(const std::vector<int32_t> values, file.ReadIntegers());
  return ToLabels(path, shape, values, classes, ignored);
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
