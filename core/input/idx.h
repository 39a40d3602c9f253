// MNIST's IDX format: big-endian magic number and extents, then bytes; one file of images and one
// of labels.
//
// The two files must belong together, which only their counts can show. The number of classes is
// not stored: it is one more than the largest label, over both splits if both exist. Images are
// normalised with MNIST's mean and deviation.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/base/file.h"
#include "neap/core/input/dataset.h"
#include "neap/core/input/image.h"

namespace neap {

class IdxDataset final : public Dataset {
 public:
  // Errors: NOT_FOUND, DATA_LOSS as in dataset.h; INVALID_ARGUMENT for a shape that 1-channel
  // images cannot take.
  static absl::StatusOr<std::unique_ptr<IdxDataset>> Open(const std::string& directory, Split split,
                                                          std::optional<ImageShape> shape);
  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  int64_t classes() const override { return classes_; }
  ImageShape shape() const override { return transform_.target(); }
  absl::Status Read(int64_t index, float* pixels, int32_t* label) const override;

 private:
  IdxDataset(ReadableFile images, int64_t image_bytes, std::vector<uint8_t> labels, int64_t classes,
             ImageTransform transform)
      : images_(std::move(images)),
        image_bytes_(image_bytes),
        labels_(std::move(labels)),
        classes_(classes),
        transform_(std::move(transform)) {}

  ReadableFile images_;
  int64_t image_bytes_;
  std::vector<uint8_t> labels_;
  int64_t classes_;
  ImageTransform transform_;
};

}  // namespace neap
