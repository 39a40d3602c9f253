// Safetensors files that tests write and read back.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/core/checkpoint/safetensors.h"

namespace neap {

struct WrittenTensor {
  SafetensorsEntry entry;
  std::string bytes;
};

inline absl::Span<const std::byte> Bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

inline absl::Status Write(const std::string& path, const std::vector<WrittenTensor>& tensors,
                          SafetensorsMetadata metadata = {}) {
  std::vector<SafetensorsEntry> entries;
  for (const WrittenTensor& tensor : tensors) entries.push_back(tensor.entry);
  auto writer = SafetensorsWriter::Create(path, std::move(entries), std::move(metadata));
  if (!writer.ok()) return writer.status();
  for (const WrittenTensor& tensor : tensors) {
    const absl::Status status = writer->Append(tensor.entry.name, Bytes(tensor.bytes));
    if (!status.ok()) return status;
  }
  return writer->Commit();
}

inline absl::StatusOr<std::string> ReadTensor(const SafetensorsReader& reader,
                                              std::string_view name) {
  const absl::StatusOr<SafetensorsEntry> entry = reader.Find(name);
  if (!entry.ok()) return entry.status();
  std::string bytes(static_cast<size_t>(entry->size_bytes), '\0');
  const absl::Status status =
      reader.Read(*entry, {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()});
  if (!status.ok()) return status;
  return bytes;
}

// A file as another program would write it: no checksum.
inline std::string FileOf(std::string_view header, std::string_view data) {
  std::string file(8, '\0');
  for (size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(header.size() >> (8 * i) & 0xFF);
  return file.append(header).append(data);
}

inline const std::vector<WrittenTensor> kTiny = {{{"a", "U8", {3}}, "xyz"},
                                                 {{"b", "F32", {1}}, "1234"}};

}  // namespace neap
