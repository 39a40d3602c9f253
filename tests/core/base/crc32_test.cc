#include "neap/core/base/crc32.h"

#include <doctest/doctest.h>

#include <boost/crc.hpp>
#include <random>
#include <string_view>
#include <vector>

namespace neap {
namespace {

uint32_t Of(absl::Span<const std::byte> bytes) {
  Crc32 crc;
  crc.Add(bytes);
  return crc.value();
}

uint32_t Of(std::string_view text) {
  return Of({reinterpret_cast<const std::byte*>(text.data()), text.size()});
}

uint32_t ByBoost(absl::Span<const std::byte> bytes) {
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

std::vector<std::byte> RandomBytes(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST_CASE("known checksums") {
  CHECK(Of("") == 0);
  CHECK(Of("123456789") == 0xCBF43926);  // the check value that the CRC catalogues give
  CHECK(Of("The quick brown fox jumps over the lazy dog") == 0x414FA339);
}

TEST_CASE("bytes of any number, from any address and in any pieces, give what Boost gives") {
  const std::vector<std::byte> bytes = RandomBytes(300, 1);
  const absl::Span<const std::byte> all = absl::MakeConstSpan(bytes);
  for (size_t begin = 0; begin < 9; ++begin) {
    for (size_t size = 0; begin + size <= bytes.size(); ++size) {
      CAPTURE(begin);
      CAPTURE(size);
      const absl::Span<const std::byte> part = all.subspan(begin, size);
      REQUIRE(Of(part) == ByBoost(part));
      Crc32 pieces;
      pieces.Add(part.first(size / 3));
      pieces.Add(part.subspan(size / 3));
      REQUIRE(pieces.value() == ByBoost(part));
    }
  }
}

TEST_CASE("the checksum of two pieces is computed from the checksums of each") {
  const std::vector<std::byte> bytes = RandomBytes(100'000, 2);
  const absl::Span<const std::byte> all = absl::MakeConstSpan(bytes);
  for (const size_t first : {0, 1, 7, 4096, 65'537, 99'999, 100'000}) {
    CAPTURE(first);
    const absl::Span<const std::byte> second = all.subspan(first);
    CHECK(Crc32::Concatenated(Of(all.first(first)), Of(second),
                              static_cast<int64_t>(second.size())) == ByBoost(all));
  }
}

TEST_CASE("every flipped bit is detected") {
  std::vector<std::byte> bytes = RandomBytes(64, 3);
  const uint32_t right = Of(bytes);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    const auto mask = static_cast<std::byte>(1 << bit % 8);
    bytes[bit / 8] ^= mask;
    CHECK(Of(bytes) != right);
    bytes[bit / 8] ^= mask;
  }
}

}  // namespace
}  // namespace neap
