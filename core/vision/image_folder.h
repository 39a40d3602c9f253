// Images in files of their own, in a folder for each class: torchvision's ImageFolder.
//
//   DIR/n01440764/n01440764_10026.JPEG   class 0
//   DIR/n01440764/more/1.png             class 0
//   DIR/n01443537/n01443537_2.JPEG       class 1
//
// Classes are numbered in the order of their folders' names, and images are in the order of their
// classes, then of their folders, then of their names, byte by byte. Files are taken by their
// names: .jpg, .jpeg and .png, in any case, whatever their contents. Other files are ignored,
// except those that torchvision would read as images: they are an error, because training without
// them would be another one. Links are followed. Unlike in torchvision, hidden folders and links
// that close a loop are left out, and a folder with train/ and val/ is one of two datasets
// (core/vision/image_files.h).
//
// Read() gives what torchvision's evaluation of ImageNet does: the shorter side is resized to 256
// where 224 are wanted, and the middle is cropped. ReadView() gives what its training does: a
// random crop of 8% to 100%, resized, mirrored or not (core/vision/photo_reader.h).
//
//   ASSIGN_OR_RETURN(std::unique_ptr<ImageFolder> photos, ImageFolder::Open("imagenet/train", {}));
//   photos->classes();  // 1000
//   photos->file(0);    // imagenet/train/n01440764/n01440764_10026.JPEG
//
// OpenFiles() reads photographs without labels, for predictions: all labels are -1.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/vision/dataset.h"
#include "neap/core/vision/photo_reader.h"

namespace neap {

struct ImageFolderOptions {
  std::optional<ImageShape> shape = {};  // 3x224x224; of one channel: grey, as ITU-R 601 weights it
  Split split = Split::kTrain;           // of a folder with a folder for each
  // As in DatasetOptions:
  std::function<void(const absl::Status&)> on_bad_file = {};
  bool allow_empty_classes = false;
  bool apply_orientation = false;
};

// *Threads*: safe from several at once.
class ImageFolder final : public Dataset {
 public:
  // Errors: NOT_FOUND for a folder that does not exist, has no folders, or has one without images,
  // unless they are allowed;
  // INVALID_ARGUMENT for a shape that has neither one nor three channels, and for a file whose name
  // is that of an image of another format, naming it; UNIMPLEMENTED in a build without the
  // libraries.
  static absl::StatusOr<std::unique_ptr<ImageFolder>> Open(const std::string& directory,
                                                           const ImageFolderOptions& options);
  // The files, and of each folder all that Open() would take, in it and in further folders. Errors:
  // as Open(); NOT_FOUND for a folder without images.
  static absl::StatusOr<std::unique_ptr<ImageFolder>> OpenFiles(
      const std::vector<std::string>& paths, const ImageFolderOptions& options);
  int64_t size() const override { return static_cast<int64_t>(paths_.size()); }
  int64_t classes() const override { return static_cast<int64_t>(class_names_.size()); }
  ImageShape shape() const override { return reader_.shape(); }
  bool decodes() const override { return true; }
  // Errors: those of dataset.h, naming the file.
  absl::Status Read(int64_t index, float* pixels, int32_t* label) const override;
  absl::Status ReadView(int64_t index, const RandomView& view, float* pixels,
                        int32_t* label) const override;

  std::vector<std::string> class_names() const override { return class_names_; }
  std::string file(int64_t index) const override { return paths_[static_cast<size_t>(index)]; }
  std::vector<std::string> notices() const override { return notices_; }

 private:
  ImageFolder(std::string directory, ImageShape shape, const ImageFolderOptions& options)
      : directory_(std::move(directory)),
        reader_(shape, Framing::kCentralPart, options.apply_orientation),
        on_bad_file_(options.on_bad_file) {}
  // A folder to which no images were added yet.
  static absl::StatusOr<std::unique_ptr<ImageFolder>> Create(const std::string& directory,
                                                             const ImageFolderOptions& options);
  absl::Status AddClass(const std::string& folder, bool may_be_empty);
  // All in the folder and those within it. Returns how many there are.
  absl::StatusOr<int64_t> AddFiles(const std::string& folder);
  // `view` is null for evaluation.
  absl::Status ReadGood(int64_t index, const RandomView* view, float* pixels, int32_t* label) const;

  std::string directory_;  // or the first of several paths
  PhotoReader reader_;
  std::function<void(const absl::Status&)> on_bad_file_;
  std::vector<std::string> notices_;
  std::vector<std::string> class_names_;
  std::vector<int64_t> class_ends_;  // images of classes 0 .. i
  std::vector<std::string> paths_;
};

// The classes of the folder, or of its folder for training, without a look at its images. Errors:
// NOT_FOUND.
absl::StatusOr<std::vector<std::string>> ImageClassesOf(const std::string& directory);

}  // namespace neap
