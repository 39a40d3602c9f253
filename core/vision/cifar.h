// CIFAR-10 and CIFAR-100 in their binary versions: records of label bytes and a 3x32x32 image,
// nothing else.
//
// The format has no header and no count, so damage shows only as a length that is not a whole
// number of records, or as a label out of range. A file cut between two records reads as a smaller
// dataset.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/base/file.h"
#include "neap/core/vision/dataset.h"
#include "neap/core/vision/image.h"

namespace neap {

enum class CifarKind : uint8_t { k10, k100 };

class CifarDataset final : public Dataset {
 public:
  // Errors: as in dataset.h.
  static absl::StatusOr<std::unique_ptr<CifarDataset>> Open(const std::string& directory,
                                                            CifarKind kind, Split split,
                                                            std::optional<ImageShape> shape);
  int64_t size() const override { return ends_.back(); }
  int64_t classes() const override { return kind_ == CifarKind::k10 ? 10 : 100; }
  ImageShape shape() const override { return transform_.target(); }
  absl::Status Read(int64_t index, float* pixels, int32_t* label) const override;

 private:
  CifarDataset(CifarKind kind, ImageTransform transform)
      : kind_(kind), transform_(std::move(transform)) {}
  absl::Status AddFile(const std::string& path);
  // CIFAR-100 has the coarse class in front of the fine one.
  int64_t label_bytes() const { return kind_ == CifarKind::k10 ? 1 : 2; }
  int64_t record_bytes() const { return label_bytes() + 3 * 32 * 32; }

  CifarKind kind_;
  ImageTransform transform_;
  std::vector<ReadableFile> files_;
  std::vector<int64_t> ends_;  // ends_[i]: images in files 0 .. i
};

}  // namespace neap
