// The JSON header of a safetensors file, as text and as values. Internal to
// core/checkpoint/safetensors.cc.
//
//   {"__metadata__":{"neap.header_crc32":"1c291ca3","neap.data_crc32":"9be3e0a3","step":"7"},
//    "fc.weight":{"dtype":"F32","shape":[10,64],"data_offsets":[0,2560]}}        (in one line)
//
// "neap.data_crc32" is zlib's CRC-32 of all bytes that follow the header, "neap.header_crc32" that
// of the whole header text with "00000000" in place of its own value. Files of other programs, and
// of older versions of neap, lack one or both.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/checkpoint/safetensors.h"

namespace neap {

// The size of the header's length, which precedes the header.
inline constexpr int64_t kSafetensorsPrefixBytes = 8;

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // offsets count from the end of the header
  SafetensorsMetadata metadata;           // without the checksums
  std::optional<uint32_t> data_crc32 = {};
};

// A fault of a header, and its place in the text.
struct SafetensorsFault {
  int64_t position = 0;
  std::string what;
};

// Fills `header`, or returns the fault. Does not check whether the tensors cover the file's data.
std::optional<SafetensorsFault> ParseSafetensorsHeader(std::string_view text,
                                                       SafetensorsHeader& header);

// The first bytes of the file, including prefix and padding, with zeros for the checksums. Sorts
// header.entries into the order of the file, larger elements first so that each is aligned, and
// sets their offsets and sizes. Errors: INVALID_ARGUMENT naming `path` and the tensor.
absl::StatusOr<std::string> MakeSafetensorsHeader(std::string_view path, SafetensorsHeader& header);

// Fills both checksums into the result of MakeSafetensorsHeader().
void SealSafetensorsHeader(uint32_t data_crc32, std::string& bytes);

}  // namespace neap
