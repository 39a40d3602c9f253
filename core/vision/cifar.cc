#include "neap/core/vision/cifar.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

constexpr ImageShape kCifarShape = {.c = 3, .h = 32, .w = 32};

// Mean and deviation over the training images.
std::vector<ChannelScale> ScalesOf(CifarKind kind) {
  if (kind == CifarKind::k10) {
    return {{0.4914F, 0.2470F}, {0.4822F, 0.2435F}, {0.4465F, 0.2616F}};
  }
  return {{0.5071F, 0.2673F}, {0.4865F, 0.2564F}, {0.4409F, 0.2762F}};
}

std::vector<std::string> FilesOf(CifarKind kind, Split split) {
  if (kind == CifarKind::k100) return {split == Split::kTrain ? "train.bin" : "test.bin"};
  if (split != Split::kTrain) return {"test_batch.bin"};
  return {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin",
          "data_batch_5.bin"};
}

}  // namespace

absl::StatusOr<std::unique_ptr<CifarDataset>> CifarDataset::Open(const std::string& directory,
                                                                 CifarKind kind, Split split,
                                                                 std::optional<ImageShape> shape) {
  ASSIGN_OR_RETURN(
      ImageTransform transform,
      ImageTransform::Create(kCifarShape, shape.value_or(kCifarShape), ScalesOf(kind)));
  std::unique_ptr<CifarDataset> dataset(new CifarDataset(kind, std::move(transform)));
  for (const std::string& name : FilesOf(kind, split)) {
    RETURN_IF_ERROR(dataset->AddFile(absl::StrCat(directory, "/", name)));
  }
  return dataset;
}

absl::Status CifarDataset::AddFile(const std::string& path) {
  ASSIGN_OR_RETURN(ReadableFile file, ReadableFile::Open(path));
  const int64_t records = file.size_bytes() / record_bytes();
  if (records == 0 || file.size_bytes() % record_bytes() != 0) {
    return file.Corrupt(file.size_bytes(),
                        absl::StrCat("the file ends within the record of ", record_bytes(),
                                     " bytes that starts at ", records * record_bytes()));
  }
  ends_.push_back((ends_.empty() ? 0 : ends_.back()) + records);
  files_.push_back(std::move(file));
  return absl::OkStatus();
}

absl::Status CifarDataset::Read(int64_t index, float* pixels, int32_t* label) const {
  if (index < 0 || index >= size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(files_[0].path(), ": no image ", index, " among ", size()));
  }
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), index);
  const ReadableFile& file = files_[static_cast<size_t>(end - ends_.begin())];
  const int64_t offset = (index - (end == ends_.begin() ? 0 : *(end - 1))) * record_bytes();
  std::vector<uint8_t> record(static_cast<size_t>(record_bytes()));
  RETURN_IF_ERROR(
      file.ReadAt(offset, {reinterpret_cast<std::byte*>(record.data()), record.size()}));
  const size_t label_at = static_cast<size_t>(label_bytes() - 1);
  *label = record[label_at];
  if (*label >= classes()) {
    return file.Corrupt(offset + label_bytes() - 1,
                        absl::StrCat("label ", *label, " of ", classes(), " classes"));
  }
  transform_.Apply(absl::MakeConstSpan(record).subspan(label_at + 1), pixels);
  return absl::OkStatus();
}

}  // namespace neap
