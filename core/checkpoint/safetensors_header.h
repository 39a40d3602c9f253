// The JSON header of a safetensors file, as text and as values. Internal to
// core/checkpoint/safetensors.cc.
//
//   {"__metadata__":{"neap.header_crc32":"1c291ca3","neap.data_crc32":"9be3e0a3","step":"7"},
//    "fc.weight":{"dtype":"F32","shape":[10,64],"data_offsets":[0,2560]}}
//
// "neap.data_crc32" is the CRC-32 of all bytes that follow the header, "neap.header_crc32" that of
// the whole header text with "00000000" in its own place; both as zlib computes it. Files of other
// programs, and of neap before it wrote them, lack one or both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/checkpoint/safetensors.h"

namespace neap {

// The header's length, in front of it.
inline constexpr int64_t kSafetensorsPrefixBytes = 8;

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // offsets count from the end of the header
  SafetensorsMetadata metadata;           // without the checksums
  std::optional<uint32_t> data_crc32 = {};
};

// What is wrong with a header, and where in its text.
struct SafetensorsFault {
  int64_t position = 0;
  std::string what;
};

// Fills `header`, or says what is wrong. Whether the tensors cover the file's data is not known
// here.
std::optional<SafetensorsFault> ParseSafetensorsHeader(std::string_view text,
                                                       SafetensorsHeader& header);

// The first bytes of the file, prefix and padding included, but for its checksums, which are zeros.
// Orders header.entries as their bytes will lie, elements of more bytes first so that each is
// aligned in the file, and sets their offsets and sizes. Errors: INVALID_ARGUMENT naming `path` and
// the tensor.
absl::StatusOr<std::string> MakeSafetensorsHeader(std::string_view path, SafetensorsHeader& header);

// Puts both checksums into what MakeSafetensorsHeader() has made.
void SealSafetensorsHeader(uint32_t data_crc32, std::string& bytes);

}  // namespace neap
