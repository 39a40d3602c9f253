// The CRC-32 of zlib, gzip and PNG, over bytes that arrive in pieces. zlib computes it.
//
// Tensors may be written in any order; Concatenated() computes the checksum of two adjacent pieces
// from the checksums of each.
//
//   Crc32 crc;
//   crc.Add(first);
//   crc.Add(second);
//   crc.value();  // zlib.crc32(first + second)
//   Crc32::Concatenated(crc_of_first, crc_of_second, size_of_second);  // the same
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"

namespace neap {

class Crc32 {
 public:
  void Add(absl::Span<const std::byte> bytes);
  uint32_t value() const { return value_; }

  // The checksum of the bytes that `first` covers followed by the `second_size_bytes` that `second`
  // covers.
  // *Complexity*: O(log(second_size_bytes)).
  static uint32_t Concatenated(uint32_t first, uint32_t second, int64_t second_size_bytes);

 private:
  uint32_t value_ = 0;
};

}  // namespace neap
