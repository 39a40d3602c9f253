// Files in the safetensors format: 8 bytes of header length (little-endian), a JSON header, then
// the tensors' bytes.
//
// Files are read back after crashes and come from other programs, so the reader checks everything:
// lengths, JSON, types, and that the tensors cover the data without overlap or hole. The format
// cannot show a changed name or number in the header, or a changed byte of a tensor. These are
// detected by two checksums that the writer stores in the metadata (other programs ignore them):
// "neap.header_crc32" and "neap.data_crc32", the CRC-32 of all bytes that follow the header. The
// writer streams: no tensor is held in memory twice.
//
//   ASSIGN_OR_RETURN(SafetensorsWriter writer,
//                    SafetensorsWriter::Create(path, {{"fc.weight", "F32", {10, 64}}}));
//   RETURN_IF_ERROR(writer.Append("fc.weight", bytes));
//   RETURN_IF_ERROR(writer.Commit());
//
//   ASSIGN_OR_RETURN(SafetensorsReader reader, SafetensorsReader::Open(path));
//   RETURN_IF_ERROR(reader.CheckData());
//   ASSIGN_OR_RETURN(SafetensorsEntry weight, reader.Find("fc.weight"));
//   RETURN_IF_ERROR(reader.Read(weight, bytes));
//
// *Errors*: those of core/base/file.h; DATA_LOSS "PATH: byte N: what" for a faulty file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/core/base/crc32.h"
#include "neap/core/base/file.h"

namespace neap {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;           // "F32", "F16", "BF16", "I64", "I32", "U8", ...
  std::vector<int64_t> shape;  // {} is a scalar
  // The position of the bytes in the file, set by reader and writer.
  int64_t offset = 0;
  int64_t size_bytes = 0;
};

using SafetensorsMetadata = std::map<std::string, std::string>;

// Bytes of one element; 0 for a dtype that the format does not have.
int64_t SafetensorsElementBytes(std::string_view dtype);

class SafetensorsReader {
 public:
  // Reads and checks the header.
  static absl::StatusOr<SafetensorsReader> Open(std::string path);
  // The tensors in the order of their bytes in the file.
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }
  const SafetensorsMetadata& metadata() const { return metadata_; }
  // Reads all tensors and compares them with the file's checksum; returns OK at once if the file
  // has none. Errors: DATA_LOSS. *Complexity*: about 1 s per 1.5 GB.
  absl::Status CheckData() const;
  // Errors: NOT_FOUND.
  absl::StatusOr<SafetensorsEntry> Find(std::string_view name) const;
  // Fills `bytes`, which must have entry.size_bytes.
  absl::Status Read(const SafetensorsEntry& entry, absl::Span<std::byte> bytes) const;

 private:
  explicit SafetensorsReader(ReadableFile file) : file_(std::move(file)) {}
  ReadableFile file_;
  int64_t data_begin_ = 0;
  std::vector<SafetensorsEntry> entries_;
  SafetensorsMetadata metadata_;
  std::optional<uint32_t> data_crc32_;
};

// Writes atomically (core/base/file.h): the old file stays until Commit has succeeded.
class SafetensorsWriter {
 public:
  // Errors: INVALID_ARGUMENT for a name that is a duplicate, not UTF-8, or "__metadata__"; an
  // unknown dtype; a negative or huge shape.
  static absl::StatusOr<SafetensorsWriter> Create(std::string path,
                                                  std::vector<SafetensorsEntry> entries,
                                                  SafetensorsMetadata metadata = {});
  // Appends the next bytes of this tensor. Tensors may come in any order, and interleaved.
  // Errors: INVALID_ARGUMENT for an unknown tensor or more bytes than it has.
  absl::Status Append(std::string_view name, absl::Span<const std::byte> bytes);
  // Errors: FAILED_PRECONDITION if a tensor lacks bytes.
  absl::Status Commit();

 private:
  struct Progress {
    int64_t begin = 0;
    int64_t next = 0;
    int64_t end = 0;
    Crc32 crc = {};  // of the bytes from `begin` to `next`
  };
  SafetensorsWriter(AtomicFile file, std::string header)
      : file_(std::move(file)), header_(std::move(header)) {}
  // The checksum of all tensors, in their order in the file.
  uint32_t DataCrc32() const;

  AtomicFile file_;
  std::string header_;  // written last, with the checksums
  std::map<std::string, Progress, std::less<>> progress_;
};

// Whether both shapes are the same but for extents of 1 at their ends: a linear weight {O, C} is
// that of a convolution {O, C, 1, 1}.
bool HaveSameExtents(std::vector<int64_t> a, std::vector<int64_t> b);

}  // namespace neap
