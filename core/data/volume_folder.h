// A dataset of volumes with a class for each voxel, in a folder as core/data/labelled_files.h
// describes: .npy, .nii and .nii.gz files (core/data/volume.h).
//
//   DIR/images/1.nii.gz   DIR/labels/1.nii.gz
//   DIR/images/2.npy      DIR/labels/2.npy
//
// An example is a patch of a volume: Read() gives the middle one, ReadView() a random one, mirrored
// or not (core/data/patch.h). Each channel of a volume is normalised by its own mean and standard
// deviation. Labels of 255, those below 0 and the label "ignore" of nnU-Net's DIR/dataset.json are
// no labels.
//
//   ASSIGN_OR_RETURN(std::unique_ptr<VolumeFolder> scans,
//                    VolumeFolder::Open("DIR", {.shape = {{.c = 1, .h = 96, .w = 96, .d = 32}}}));
//   scans->extents();  // {1, 32, 96, 96}
//
// Volumes that were read stay in memory, the first ones up to `keep_bytes`; what comes out does not
// depend on it. The others are read for each of their patches, by as many threads at once as have
// room in `reading_bytes`: a volume of 512 x 512 x 800 takes gigabytes while it is decompressed.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/base/byte_gate.h"
#include "neap/core/data/labelled_files.h"
#include "neap/core/data/volume.h"
#include "neap/core/vision/dataset.h"

namespace neap {

struct VolumeFolderOptions {
  std::optional<ImageShape> shape = {};  // of patches; 64x64x64 of the first volume's channels
  Split split = Split::kTrain;
  double foreground = 1.0 / 3;          // DrawPatch()
  std::optional<int64_t> classes = {};  // as in DatasetOptions
  int64_t keep_bytes = int64_t{2} << 30;
  int64_t reading_bytes = int64_t{8} << 30;  // at least one volume is read, however large
  std::optional<int32_t> ignored = {};  // a label that is none; that of dataset.json unless given
};

// *Threads*: safe from several at once.
class VolumeFolder final : public Dataset {
 public:
  // Reads the first volume and, without `classes` and classes.txt, all labels. Errors: those of
  // FindLabelledFiles(), of IgnoredLabel() and of volumes; INVALID_ARGUMENT for a shape with other
  // channels than the first volume, and for a share of foreground outside [0, 1].
  static absl::StatusOr<std::unique_ptr<VolumeFolder>> Open(const std::string& directory,
                                                            const VolumeFolderOptions& options);
  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  int64_t classes() const override { return classes_; }
  ImageShape shape() const override { return shape_; }
  int64_t labels() const override { return shape_.positions(); }
  std::vector<int64_t> extents() const override { return {shape_.c, shape_.d, shape_.h, shape_.w}; }
  std::vector<std::string> class_names() const override { return class_names_; }
  std::string file(int64_t index) const override {
    return files_[static_cast<size_t>(index)].examples.front();
  }
  std::vector<std::string> notices() const override { return notices_; }
  bool decodes() const override { return true; }
  // Errors: those of volumes; INVALID_ARGUMENT for a volume with other channels, or with other
  // extents than its labels.
  absl::Status Read(int64_t index, float* voxels, int32_t* labels) const override;
  absl::Status ReadView(int64_t index, const RandomView& view, float* voxels,
                        int32_t* labels) const override;

 private:
  struct Case {
    Volume volume;
    VolumeLabels labels;
    std::vector<int64_t> counts;         // of the classes
    std::optional<ByteGate::Pass> pass;  // unless it is kept
    int64_t size_bytes() const;
  };

  explicit VolumeFolder(const VolumeFolderOptions& options)
      : foreground_(options.foreground),
        reading_(options.reading_bytes),
        left_bytes_(options.keep_bytes) {}
  absl::Status FindClasses(const std::string& directory, std::optional<int64_t> given);
  absl::Status FindShape(std::optional<ImageShape> given);
  absl::Status ReadPatch(int64_t index, const RandomView* view, float* voxels,
                         int32_t* labels) const;
  absl::StatusOr<std::shared_ptr<const Case>> CaseAt(int64_t index) const;
  absl::StatusOr<std::shared_ptr<Case>> ReadCase(const LabelledFile& file) const;

  std::vector<LabelledFile> files_;
  std::vector<std::string> notices_;
  std::vector<std::string> class_names_;
  int64_t classes_ = 0;
  std::optional<int32_t> ignored_;
  ImageShape shape_;
  double foreground_;
  mutable ByteGate reading_;  // of volumes that are not kept
  mutable std::mutex mutex_;
  mutable int64_t left_bytes_;                             // that may still be kept
  mutable std::vector<std::shared_ptr<const Case>> kept_;  // by index; null: not kept
};

}  // namespace neap
