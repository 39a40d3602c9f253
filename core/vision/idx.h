// MNIST's IDX format: big-endian magic number and extents, then bytes; one file of images and one
// of labels. Where there is no such file but one with ".gz" after its name, as they are offered for
// download, that is decompressed into memory.
//
// The two files must belong together, which only their counts can show. The number of classes is
// not stored: it is one more than the largest label, over both splits if both exist. Images are
// normalised with MNIST's mean and deviation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/core/base/file.h"
#include "neap/core/vision/dataset.h"
#include "neap/core/vision/image.h"

namespace neap {

// The bytes of a file, or what a compressed file decompresses to.
class IdxBytes {
 public:
  explicit IdxBytes(ReadableFile file) : file_(std::move(file)) {}
  IdxBytes(ReadableFile file, std::vector<std::byte> decompressed)
      : file_(std::move(file)), decompressed_(std::move(decompressed)) {}
  const std::string& path() const { return file_.path(); }
  int64_t size_bytes() const;
  absl::Status ReadAt(int64_t offset, absl::Span<std::byte> bytes) const;
  // DATA_LOSS: "PATH: byte OFFSET: WHAT".
  absl::Status Corrupt(int64_t offset, const std::string& what) const {
    return file_.Corrupt(offset, what);
  }

 private:
  ReadableFile file_;
  std::optional<std::vector<std::byte>> decompressed_ = {};
};

class IdxDataset final : public Dataset {
 public:
  // Errors: NOT_FOUND, DATA_LOSS as in dataset.h; INVALID_ARGUMENT for a shape that 1-channel
  // images cannot take; RESOURCE_EXHAUSTED if there is no memory for decompressed files.
  static absl::StatusOr<std::unique_ptr<IdxDataset>> Open(const std::string& directory, Split split,
                                                          std::optional<ImageShape> shape);
  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  int64_t classes() const override { return classes_; }
  ImageShape shape() const override { return transform_.target(); }
  absl::Status Read(int64_t index, float* pixels, int32_t* label) const override;

 private:
  IdxDataset(IdxBytes images, int64_t image_bytes, std::vector<uint8_t> labels, int64_t classes,
             ImageTransform transform)
      : images_(std::move(images)),
        image_bytes_(image_bytes),
        labels_(std::move(labels)),
        classes_(classes),
        transform_(std::move(transform)) {}

  IdxBytes images_;
  int64_t image_bytes_;
  std::vector<uint8_t> labels_;
  int64_t classes_;
  ImageTransform transform_;
};

}  // namespace neap
