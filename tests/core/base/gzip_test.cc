#include "neap/core/base/gzip.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>

#include "tests/scratch_directory.h"

namespace neap {
namespace {

// "neap" 1,000 times, by Python's gzip.
const std::string kCompressed(
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff\xed\xc3\xa1\x0d\x00\x00\x08\x03\xb0\x5b"
    "\x11\xd8\x65\xff\x2b\xce\xc0\xb4\x49\xb3\xd3\xa8\xaa\xaa\xaa\xaf\x0f\x7c\x36\xd9"
    "\x26\xa0\x0f\x00\x00",
    45);

std::string Repeated(int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += "neap";
  return text;
}

// What the file decompresses to, or the error's message.
std::string Read(std::string_view bytes, int64_t most_bytes) {
  const ScratchDirectory directory;
  WriteText(directory.File("file.gz"), bytes);
  const absl::StatusOr<ReadableFile> file = ReadableFile::Open(directory.File("file.gz"));
  REQUIRE(file.ok());
  const auto read = ReadGzip(*file, most_bytes);
  if (!read.ok()) {
    CHECK(absl::IsDataLoss(read.status()));
    return std::string(read.status().message()).substr(directory.path().size() + 1);
  }
  return {reinterpret_cast<const char*>(read->data()), read->size()};
}

TEST_CASE("a compressed file is read to its end, or as far as is wanted") {
  CHECK(Read(kCompressed, 4000) == Repeated(1000));
  CHECK(Read(kCompressed, int64_t{1} << 60) == Repeated(1000));
  CHECK(Read(kCompressed, 7) == "neapnea");
  CHECK(Read(kCompressed, 0).empty());
  CHECK(Read(kCompressed + kCompressed, 9000) == Repeated(2000));
}

TEST_CASE("truncated, damaged and other files are refused with file and byte") {
  for (size_t length = 0; length < kCompressed.size(); ++length) {
    CAPTURE(length);
    CHECK(Read(kCompressed.substr(0, length), 5000) ==
          "file.gz: byte " + std::to_string(length) + ": the compressed data ends too early");
  }
  std::string damaged = kCompressed;
  damaged[damaged.size() - 6] ^= 1;  // of the checksum
  CHECK(Read(damaged, 5000).find("not gzip's format: incorrect data check") != std::string::npos);
  CHECK(Read("no archive", 5000).find("not gzip's format: incorrect header check") !=
        std::string::npos);
}

}  // namespace
}  // namespace neap
