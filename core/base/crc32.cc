#include "neap/core/base/crc32.h"

#include <array>
#include <bit>
#include <cstring>

namespace neap {
namespace {

constexpr uint32_t kPolynomial = 0xEDB88320;  // the highest power of x in the lowest bit
constexpr size_t kSlices = 8;

static_assert(std::endian::native == std::endian::little, "words are read as they lie");

using Tables = std::array<std::array<uint32_t, 256>, kSlices>;

// tables[s][b]: what byte b, followed by s zero bytes, adds to the remainder.
constexpr Tables MakeTables() {
  Tables tables = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit)
      remainder = remainder >> 1 ^ ((remainder & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = remainder;
  }
  for (size_t slice = 1; slice < kSlices; ++slice) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[slice - 1][byte];
      tables[slice][byte] = before >> 8 ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

// The product of two polynomials modulo the CRC's.
uint32_t Product(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (; a != 0; a <<= 1) {
    if ((a & 0x80000000) != 0) product ^= b;
    b = b >> 1 ^ ((b & 1) != 0 ? kPolynomial : 0);
  }
  return product;
}

}  // namespace

void Crc32::Add(absl::Span<const std::byte> bytes) {
  uint32_t state = state_;
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= kSlices; left -= kSlices, at += kSlices) {
    uint32_t low = 0;
    uint32_t high = 0;
    std::memcpy(&low, at, sizeof(low));
    std::memcpy(&high, at + sizeof(low), sizeof(high));
    low ^= state;
    state = kTables[7][low & 0xFF] ^ kTables[6][low >> 8 & 0xFF] ^ kTables[5][low >> 16 & 0xFF] ^
            kTables[4][low >> 24] ^ kTables[3][high & 0xFF] ^ kTables[2][high >> 8 & 0xFF] ^
            kTables[1][high >> 16 & 0xFF] ^ kTables[0][high >> 24];
  }
  for (; left > 0; --left, ++at)
    state = state >> 8 ^ kTables[0][(state ^ static_cast<uint32_t>(*at)) & 0xFF];
  state_ = state;
}

// Bytes appended move what was there by as many powers of x^8; the two inversions of each checksum
// cancel out.
uint32_t Crc32::Concatenated(uint32_t first, uint32_t second, int64_t second_size_bytes) {
  uint32_t moved = first;
  uint32_t power = 0x00800000;  // x^8, then x^16, x^32, ...
  for (uint64_t bytes = static_cast<uint64_t>(second_size_bytes); bytes != 0; bytes >>= 1) {
    if ((bytes & 1) != 0) moved = Product(moved, power);
    power = Product(power, power);
  }
  return moved ^ second;
}

}  // namespace neap
