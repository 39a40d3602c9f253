#include "neap/core/vision/idx.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/gzip.h"
#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

constexpr ChannelScale kMnist = {.mean = 0.1307F, .deviation = 0.3081F};

struct IdxFile {
  IdxBytes file;
  std::vector<int64_t> extents;
  int64_t data_begin;

  int64_t size() const;  // of the data
};

int64_t IdxFile::size() const {
  int64_t size = 1;
  for (const int64_t extent : extents) size *= extent;
  return size;
}

absl::StatusOr<int64_t> ReadBigEndian32(const IdxBytes& file, int64_t offset) {
  std::array<std::byte, 4> bytes = {};
  RETURN_IF_ERROR(file.ReadAt(offset, absl::MakeSpan(bytes)));
  int64_t value = 0;
  for (std::byte byte : bytes) value = value << 8 | static_cast<int64_t>(byte);
  return value;
}

// The header of a file of bytes with `rank` extents.
absl::StatusOr<IdxFile> ReadHeader(IdxBytes file, int rank) {
  IdxFile idx{.file = std::move(file), .extents = {}, .data_begin = 4 + 4 * rank};
  ASSIGN_OR_RETURN(const int64_t magic, ReadBigEndian32(idx.file, 0));
  if (magic != 0x800 + rank) {
    return idx.file.Corrupt(0, absl::StrCat("not an IDX file of bytes with ", rank, " extents"));
  }
  int64_t size = idx.data_begin;
  for (int axis = 0; axis < rank; ++axis) {
    const int64_t offset = 4 + 4 * axis;
    ASSIGN_OR_RETURN(const int64_t extent, ReadBigEndian32(idx.file, offset));
    if (extent == 0 || __builtin_mul_overflow(size, extent, &size)) {
      return idx.file.Corrupt(offset, absl::StrCat("an extent of ", extent));
    }
    idx.extents.push_back(extent);
  }
  return idx;
}

// Reads no more than the header promises, and one byte to know that there is not more.
absl::StatusOr<IdxFile> Decompress(ReadableFile file, int rank) {
  ASSIGN_OR_RETURN(std::vector<std::byte> header, ReadGzip(file, 4 + 4 * rank));
  ASSIGN_OR_RETURN(IdxFile idx, ReadHeader(IdxBytes(std::move(file), std::move(header)), rank));
  ASSIGN_OR_RETURN(ReadableFile again, ReadableFile::Open(idx.file.path()));
  ASSIGN_OR_RETURN(std::vector<std::byte> bytes, ReadGzip(again, idx.data_begin + idx.size() + 1));
  idx.file = IdxBytes(std::move(again), std::move(bytes));
  return idx;
}

absl::StatusOr<IdxFile> OpenHeader(const std::string& path, int rank) {
  absl::StatusOr<ReadableFile> file = ReadableFile::Open(path);
  if (file.ok()) return ReadHeader(IdxBytes(*std::move(file)), rank);
  if (!absl::IsNotFound(file.status())) return file.status();
  absl::StatusOr<ReadableFile> compressed = ReadableFile::Open(path + ".gz");
  if (absl::IsNotFound(compressed.status())) return file.status();
  if (!compressed.ok()) return compressed.status();
  return Decompress(*std::move(compressed), rank);
}

// Opens the file of bytes with `rank` extents at `path`, and checks its length against them.
absl::StatusOr<IdxFile> OpenIdx(const std::string& path, int rank) {
  ASSIGN_OR_RETURN(IdxFile idx, OpenHeader(path, rank));
  const int64_t actual = idx.file.size_bytes() - idx.data_begin;
  if (actual == idx.size()) return idx;
  return idx.file.Corrupt(
      idx.data_begin + std::min(idx.size(), actual),
      absl::StrCat("the file holds ", actual, " bytes of data, not ", idx.size()));
}

// The test split's files start with "t10k" or "test".
absl::StatusOr<IdxFile> OpenOf(const std::string& directory, Split split, const std::string& rest,
                               int rank) {
  const bool train = split == Split::kTrain;
  absl::StatusOr<IdxFile> file =
      OpenIdx(absl::StrCat(directory, "/", train ? "train" : "t10k", rest), rank);
  if (train || !absl::IsNotFound(file.status())) return file;
  return OpenIdx(absl::StrCat(directory, "/test", rest), rank);
}

absl::StatusOr<IdxFile> OpenLabels(const std::string& directory, Split split) {
  return OpenOf(directory, split, "-labels-idx1-ubyte", 1);
}

absl::StatusOr<std::vector<uint8_t>> ReadLabels(const IdxFile& idx) {
  std::vector<uint8_t> labels(static_cast<size_t>(idx.extents[0]));
  RETURN_IF_ERROR(idx.file.ReadAt(idx.data_begin,
                                  {reinterpret_cast<std::byte*>(labels.data()), labels.size()}));
  return labels;
}

int64_t ClassesOf(const std::vector<uint8_t>& labels) {
  return 1 + int64_t{*std::max_element(labels.begin(), labels.end())};
}

// The number of classes in another split, which may have more than this one; 0 if it does not
// exist.
int64_t ClassesOf(const std::string& directory, Split split) {
  const absl::StatusOr<IdxFile> idx = OpenLabels(directory, split);
  if (!idx.ok()) return 0;
  const absl::StatusOr<std::vector<uint8_t>> labels = ReadLabels(*idx);
  return labels.ok() ? ClassesOf(*labels) : 0;
}

}  // namespace

int64_t IdxBytes::size_bytes() const {
  return decompressed_.has_value() ? std::ssize(*decompressed_) : file_.size_bytes();
}

absl::Status IdxBytes::ReadAt(int64_t offset, absl::Span<std::byte> bytes) const {
  if (!decompressed_.has_value()) return file_.ReadAt(offset, bytes);
  const int64_t missing = offset + std::ssize(bytes) - std::ssize(*decompressed_);
  if (missing > 0) {
    return Corrupt(std::ssize(*decompressed_),
                   absl::StrCat("the decompressed data ends ", missing, " bytes too early"));
  }
  std::memcpy(bytes.data(), decompressed_->data() + offset, bytes.size());
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<IdxDataset>> IdxDataset::Open(const std::string& directory,
                                                             Split split,
                                                             std::optional<ImageShape> shape) {
  ASSIGN_OR_RETURN(IdxFile images, OpenOf(directory, split, "-images-idx3-ubyte", 3));
  ASSIGN_OR_RETURN(IdxFile labels_file, OpenLabels(directory, split));
  if (labels_file.extents[0] != images.extents[0]) {
    return labels_file.file.Corrupt(
        4, absl::StrCat(labels_file.extents[0], " labels for the ", images.extents[0],
                        " images of ", images.file.path()));
  }
  ASSIGN_OR_RETURN(std::vector<uint8_t> labels, ReadLabels(labels_file));
  const Split other = split == Split::kTrain ? Split::kTest : Split::kTrain;
  const int64_t classes = std::max(ClassesOf(labels), ClassesOf(directory, other));
  const ImageShape own = {.c = 1, .h = images.extents[1], .w = images.extents[2]};
  ASSIGN_OR_RETURN(ImageTransform transform,
                   ImageTransform::Create(own, shape.value_or(own), {kMnist}));
  return std::unique_ptr<IdxDataset>(new IdxDataset(
      std::move(images.file), own.elements(), std::move(labels), classes, std::move(transform)));
}

absl::Status IdxDataset::Read(int64_t index, float* pixels, int32_t* label) const {
  if (index < 0 || index >= size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(images_.path(), ": no image ", index, " among ", size()));
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(image_bytes_));
  constexpr int64_t kHeaderBytes = 16;
  RETURN_IF_ERROR(images_.ReadAt(kHeaderBytes + index * image_bytes_,
                                 {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()}));
  transform_.Apply(bytes, pixels);
  *label = labels_[static_cast<size_t>(index)];
  return absl::OkStatus();
}

}  // namespace neap
