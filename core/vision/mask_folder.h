// Images with the class of each of their pixels, for semantic segmentation, in a folder as
// core/data/labelled_files.h describes.
//
//   DIR/images/1.jpg   DIR/masks/1.png    JPEG or PNG; PNG of one channel and up to 8 bits, whose
//   DIR/images/2.png   DIR/masks/2.png    values, or places in a palette, are the classes
//
// 255 is no label: the pixel adds nothing to the loss, and does not count. An image and its mask
// are of one size. Read() resizes both to the network's size, whatever their proportions;
// ReadView() takes the same crop of both, 8% to 100% of the image, mirrored or not, and resizes
// that (core/vision/image/random_view.h). Images are resized with antialiasing (PhotoReader), masks
// by their nearest pixel, so that no classes come up in between:
//
//   pixel i of n takes pixel floor((i + 1/2) * extent / n) of the crop's `extent`
//
//   ASSIGN_OR_RETURN(std::unique_ptr<MaskFolder> streets,
//                    MaskFolder::Open("camvid", {.shape = {{3, 360, 480}}, .classes = 12}));
//   streets->labels();  // 360 x 480
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/data/labelled_files.h"
#include "neap/core/vision/dataset.h"
#include "neap/core/vision/photo_reader.h"

namespace neap {

struct MaskFolderOptions {
  std::optional<ImageShape> shape = {};  // kPhotoShape; of one channel: grey
  Split split = Split::kTrain;
  std::optional<int64_t> classes = {};  // as in DatasetOptions
};

// *Threads*: safe from several at once.
class MaskFolder final : public Dataset {
 public:
  // Without `classes` and classes.txt, all masks are read. Errors: those of FindLabelledFiles();
  // INVALID_ARGUMENT for a shape that photographs cannot have; UNIMPLEMENTED in a build without the
  // libraries that decode images.
  static absl::StatusOr<std::unique_ptr<MaskFolder>> Open(const std::string& directory,
                                                          const MaskFolderOptions& options);
  int64_t size() const override { return static_cast<int64_t>(files_.size()); }
  int64_t classes() const override { return classes_; }
  ImageShape shape() const override { return reader_.shape(); }
  int64_t labels() const override { return shape().positions(); }
  std::vector<std::string> class_names() const override { return class_names_; }
  std::string file(int64_t index) const override {
    return files_[static_cast<size_t>(index)].examples.front();
  }
  std::vector<std::string> notices() const override { return notices_; }
  bool decodes() const override { return true; }
  // Errors: those of PhotoReader and of DecodeIndices(), naming the file; DATA_LOSS for a mask of
  // another size than its image, and naming the pixel for a label that is not a class.
  absl::Status Read(int64_t index, float* pixels, int32_t* labels) const override;
  absl::Status ReadView(int64_t index, const RandomView& view, float* pixels,
                        int32_t* labels) const override;

 private:
  MaskFolder(const ImageShape& shape, LabelledFiles found)
      : files_(std::move(found.files)),
        notices_(std::move(found.notices)),
        reader_(shape, Framing::kWhole, /*apply_orientation=*/false) {}
  absl::Status ReadPair(int64_t index, const RandomView* view, float* pixels,
                        int32_t* labels) const;

  std::vector<LabelledFile> files_;
  std::vector<std::string> notices_;
  std::vector<std::string> class_names_;
  int64_t classes_ = 0;
  PhotoReader reader_;
};

}  // namespace neap
