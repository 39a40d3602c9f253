#include "neap/core/vision/image/orientation.h"

#include <doctest/doctest.h>

#include <random>
#include <string>

#include "tests/image_files.h"

namespace neap {
namespace {

using testing::ExifBytes;
using testing::JpegBytes;
using testing::PngBytes;
using testing::Solid;
using testing::WithExif;

Orientation Read(const std::string& file) {
  return ReadOrientation({reinterpret_cast<const uint8_t*>(file.data()), file.size()});
}

TEST_CASE("a photograph held to the right is transposed, and its rows count from the other end") {
  for (const std::string& file :
       {JpegBytes(Solid(4, 4, 1, 2, 3)), PngBytes(Solid(4, 4, 1, 2, 3))}) {
    CHECK(Read(file) == Orientation());
    for (const bool little_endian : {false, true}) {
      const Orientation turned = Read(WithExif(file, ExifBytes(6, little_endian)));
      CHECK(turned == Orientation{.transposed = true, .rows_reversed = true});
      CHECK(Read(WithExif(file, ExifBytes(1, little_endian))) == Orientation());
      for (const int unknown : {0, 9, 65535})
        CHECK(Read(WithExif(file, ExifBytes(unknown, little_endian))) == Orientation());
    }
  }
}

TEST_CASE("EXIF data behind other segments is found, and truncated or damaged data is upright") {
  const std::string jpeg = JpegBytes(Solid(4, 4, 1, 2, 3));
  const std::string turned = WithExif(jpeg, ExifBytes(3, true));
  const std::string comment(
      "\xFF\xFE\0\x06"
      "ab\0\0",
      8);
  CHECK(Read(turned.substr(0, 2) + comment + turned.substr(2)).rows_reversed);
  CHECK(Read("GIF89a") == Orientation());
  CHECK(Read("") == Orientation());
  std::mt19937 random(3);
  for (const std::string& file :
       {turned, WithExif(PngBytes(Solid(4, 4, 1, 2, 3)), ExifBytes(3, false))}) {
    for (size_t length = 0; length < 60; ++length) CHECK(!Read(file.substr(0, length)).transposed);
    for (int round = 0; round < 2000; ++round) {
      std::string damaged = file;
      for (int i = 0; i < 3; ++i) damaged[random() % 80] = static_cast<char>(random());
      Read(damaged);  // AddressSanitizer would see it
    }
  }
}

}  // namespace
}  // namespace neap
