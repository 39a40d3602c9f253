#include "neap/core/base/crc32.h"

#include <zlib.h>

namespace neap {

void Crc32::Add(absl::Span<const std::byte> bytes) {
  value_ = static_cast<uint32_t>(
      crc32_z(value_, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

uint32_t Crc32::Concatenated(uint32_t first, uint32_t second, int64_t second_size_bytes) {
  return static_cast<uint32_t>(crc32_combine(first, second, second_size_bytes));
}

}  // namespace neap
