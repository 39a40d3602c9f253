#include "neap/core/checkpoint/safetensors.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/checkpoint/safetensors_header.h"

namespace neap {
namespace {

// The limit of the reference implementation.
constexpr int64_t kMaxHeaderBytes = 100'000'000;

absl::Span<const std::byte> AsBytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

// A sentence on what the file is instead of safetensors, whose header begins behind its length;
// empty if that is unknown. Pickles begin with their protocol, and since version 1.6 torch.save
// puts them into a zip archive. Their first eight bytes are any length, small ones among them.
std::string OtherFormat(std::string_view begin) {
  if (begin.size() > kSafetensorsPrefixBytes && begin[kSafetensorsPrefixBytes] == '{') return "";
  const bool is_pickle =
      begin.size() >= 2 && begin[0] == '\x80' && begin[1] >= '\x02' && begin[1] <= '\x05';
  if (is_pickle || begin.substr(0, 4) == "PK\x03\x04") {
    return "this is a PyTorch file, a pickle, which is not read; in Python, "
           "safetensors.torch.save_file(model.state_dict(), 'FILE.safetensors') writes what is";
  }
  if (begin.substr(0, 4) == "\x89HDF") return "this is an HDF5 file; safetensors are read";
  return "";
}

absl::Status CheckFormat(const ReadableFile& file) {
  std::array<char, kSafetensorsPrefixBytes + 1> begin = {};
  const auto size =
      static_cast<size_t>(std::min(file.size_bytes(), static_cast<int64_t>(begin.size())));
  RETURN_IF_ERROR(file.ReadAt(0, absl::MakeSpan(reinterpret_cast<std::byte*>(begin.data()), size)));
  const std::string other = OtherFormat({begin.data(), size});
  return other.empty() ? absl::OkStatus() : file.Corrupt(0, other);
}

absl::StatusOr<std::string> ReadHeaderText(const ReadableFile& file) {
  RETURN_IF_ERROR(CheckFormat(file));
  std::array<std::byte, kSafetensorsPrefixBytes> prefix = {};
  if (file.size_bytes() < kSafetensorsPrefixBytes) {
    return file.Corrupt(file.size_bytes(), "the file ends within the header's length");
  }
  RETURN_IF_ERROR(file.ReadAt(0, absl::MakeSpan(prefix)));
  uint64_t length = 0;
  for (size_t i = prefix.size(); i-- > 0;) length = length << 8 | static_cast<uint64_t>(prefix[i]);
  if (length > kMaxHeaderBytes) {
    return file.Corrupt(
        0, absl::StrCat("this is no safetensors file: its header would have ", length, " bytes"));
  }
  if (static_cast<int64_t>(length) > file.size_bytes() - kSafetensorsPrefixBytes) {
    return file.Corrupt(file.size_bytes(),
                        absl::StrCat("the file ends within the header of ", length, " bytes"));
  }
  std::string text(length, ' ');
  RETURN_IF_ERROR(file.ReadAt(kSafetensorsPrefixBytes,
                              absl::MakeSpan(reinterpret_cast<std::byte*>(text.data()), length)));
  return text;
}

// Turns offsets in the data, which begin at `data_begin`, into offsets in the file. An entry that
// ends beyond the file is refused first: its offset may be anything up to 2^63 - 1.
absl::Status PlaceInFile(const ReadableFile& file, int64_t data_begin,
                         std::vector<SafetensorsEntry>& entries) {
  const int64_t data_bytes = file.size_bytes() - data_begin;
  for (SafetensorsEntry& entry : entries) {
    const int64_t end = entry.offset + entry.size_bytes;  // the second of its data_offsets
    if (end > data_bytes) {
      return file.Corrupt(
          file.size_bytes(),
          absl::StrCat("the file ends before the end of tensor '", entry.name, "', whose ",
                       "data_offsets end at ", end, " of ", data_bytes, " bytes"));
    }
    entry.offset += data_begin;
  }
  return absl::OkStatus();
}

// Sorts by offset, and checks that the tensors, none of which ends beyond the file, exactly fill it
// from `data_begin` to its end.
absl::Status CheckCoverage(const ReadableFile& file, int64_t data_begin,
                           std::vector<SafetensorsEntry>& entries) {
  std::stable_sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.offset, a.size_bytes) < std::pair(b.offset, b.size_bytes);
  });
  int64_t end = data_begin;
  for (const SafetensorsEntry& entry : entries) {
    if (entry.offset != end) {
      return file.Corrupt(std::min(end, entry.offset),
                          absl::StrCat(entry.offset < end ? "overlap" : "hole", " before tensor '",
                                       entry.name, "'"));
    }
    end += entry.size_bytes;
  }
  if (end == file.size_bytes()) return absl::OkStatus();
  return file.Corrupt(end, absl::StrCat(file.size_bytes() - end, " bytes after the last tensor"));
}

}  // namespace

absl::StatusOr<SafetensorsReader> SafetensorsReader::Open(std::string path) {
  ASSIGN_OR_RETURN(ReadableFile file, ReadableFile::Open(std::move(path)));
  SafetensorsReader reader(std::move(file));
  ASSIGN_OR_RETURN(const std::string text, ReadHeaderText(reader.file_));
  SafetensorsHeader header;
  if (std::optional<SafetensorsFault> fault = ParseSafetensorsHeader(text, header)) {
    return reader.file_.Corrupt(kSafetensorsPrefixBytes + fault->position, fault->what);
  }
  const int64_t data_begin = kSafetensorsPrefixBytes + static_cast<int64_t>(text.size());
  RETURN_IF_ERROR(PlaceInFile(reader.file_, data_begin, header.entries));
  RETURN_IF_ERROR(CheckCoverage(reader.file_, data_begin, header.entries));
  reader.data_begin_ = data_begin;
  reader.entries_ = std::move(header.entries);
  reader.metadata_ = std::move(header.metadata);
  reader.data_crc32_ = header.data_crc32;
  return reader;
}

absl::Status SafetensorsReader::CheckData() const {
  if (!data_crc32_.has_value()) return absl::OkStatus();
  constexpr int64_t kPieceBytes = 1 << 20;
  std::vector<std::byte> piece;
  Crc32 crc;
  for (int64_t at = data_begin_; at < file_.size_bytes(); at += kPieceBytes) {
    piece.resize(static_cast<size_t>(std::min(kPieceBytes, file_.size_bytes() - at)));
    RETURN_IF_ERROR(file_.ReadAt(at, absl::MakeSpan(piece)));
    crc.Add(piece);
  }
  if (crc.value() == *data_crc32_) return absl::OkStatus();
  return file_.Corrupt(
      data_begin_, absl::StrFormat("the tensors' bytes do not match their checksum: CRC-32 %08x, "
                                   "the header has %08x",
                                   crc.value(), *data_crc32_));
}

absl::StatusOr<SafetensorsEntry> SafetensorsReader::Find(std::string_view name) const {
  for (const SafetensorsEntry& entry : entries_) {
    if (entry.name == name) return entry;
  }
  return absl::NotFoundError(absl::StrFormat("%s: no tensor '%s'", file_.path(), name));
}

absl::Status SafetensorsReader::Read(const SafetensorsEntry& entry,
                                     absl::Span<std::byte> bytes) const {
  if (static_cast<int64_t>(bytes.size()) != entry.size_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(file_.path(), ": tensor '", entry.name, "' has ",
                                                   entry.size_bytes, " bytes, not ", bytes.size()));
  }
  return file_.ReadAt(entry.offset, bytes);
}

absl::StatusOr<SafetensorsWriter> SafetensorsWriter::Create(std::string path,
                                                            std::vector<SafetensorsEntry> entries,
                                                            SafetensorsMetadata metadata) {
  SafetensorsHeader header{.entries = std::move(entries), .metadata = std::move(metadata)};
  ASSIGN_OR_RETURN(std::string bytes, MakeSafetensorsHeader(path, header));
  ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(std::move(path)));
  SafetensorsWriter writer(std::move(file), std::move(bytes));
  const int64_t data_begin = static_cast<int64_t>(writer.header_.size());
  for (SafetensorsEntry& entry : header.entries) {
    const int64_t begin = data_begin + entry.offset;
    writer.progress_[std::move(entry.name)] = {
        .begin = begin, .next = begin, .end = begin + entry.size_bytes};
  }
  return writer;
}

absl::Status SafetensorsWriter::Append(std::string_view name, absl::Span<const std::byte> bytes) {
  const auto it = progress_.find(name);
  if (it == progress_.end()) {
    return absl::InvalidArgumentError(absl::StrFormat("%s: no tensor '%s'", file_.path(), name));
  }
  Progress& progress = it->second;
  if (static_cast<int64_t>(bytes.size()) > progress.end - progress.next) {
    return absl::InvalidArgumentError(
        absl::StrFormat("%s: tensor '%s' has room for %d more bytes, not %d", file_.path(), name,
                        progress.end - progress.next, bytes.size()));
  }
  RETURN_IF_ERROR(file_.WriteAt(progress.next, bytes));
  progress.crc.Add(bytes);
  progress.next += static_cast<int64_t>(bytes.size());
  return absl::OkStatus();
}

uint32_t SafetensorsWriter::DataCrc32() const {
  std::vector<const Progress*> tensors;
  for (const auto& [name, progress] : progress_) tensors.push_back(&progress);
  std::sort(tensors.begin(), tensors.end(), [](const Progress* a, const Progress* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  uint32_t crc32 = Crc32().value();
  for (const Progress* tensor : tensors)
    crc32 = Crc32::Concatenated(crc32, tensor->crc.value(), tensor->end - tensor->begin);
  return crc32;
}

absl::Status SafetensorsWriter::Commit() {
  for (const auto& [name, progress] : progress_) {
    if (progress.next != progress.end) {
      return absl::FailedPreconditionError(absl::StrCat(
          file_.path(), ": tensor '", name, "' lacks ", progress.end - progress.next, " bytes"));
    }
  }
  SealSafetensorsHeader(DataCrc32(), header_);
  RETURN_IF_ERROR(file_.WriteAt(0, AsBytes(header_)));
  return file_.Commit();
}

bool HaveSameExtents(std::vector<int64_t> a, std::vector<int64_t> b) {
  a.resize(std::max(a.size(), b.size()), 1);
  b.resize(a.size(), 1);
  return a == b;
}

}  // namespace neap
