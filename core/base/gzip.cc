#include "neap/core/base/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <string>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

constexpr int64_t kMaxExpansion = 1032;
// Bits of the window, and of the flag by which zlib expects gzip's header.
constexpr int kGzipWindowBits = 15 + 16;

using Compressed = std::array<std::byte, size_t{1} << 16>;

struct EndInflate {
  void operator()(z_stream* stream) const { inflateEnd(stream); }
};

absl::Status NoMemory(const ReadableFile& file, int64_t bytes) {
  return absl::ResourceExhaustedError(
      absl::StrCat(file.path(), ": no memory for ", bytes, " decompressed bytes"));
}

absl::StatusOr<std::vector<std::byte>> Room(const ReadableFile& file, int64_t most_bytes) {
  int64_t bytes = 0;
  if (__builtin_mul_overflow(file.size_bytes(), kMaxExpansion, &bytes)) bytes = most_bytes;
  bytes = std::min(std::max<int64_t>(bytes, 1), most_bytes);  // an empty file is read, and refused
  try {
    return std::vector<std::byte>(static_cast<size_t>(bytes));
  } catch (const std::bad_alloc&) {
    return NoMemory(file, bytes);
  }
}

// The next bytes of the file, none at its end.
absl::Status Refill(const ReadableFile& file, int64_t& offset, Compressed& bytes,
                    z_stream& stream) {
  const auto count =
      static_cast<size_t>(std::min<int64_t>(std::ssize(bytes), file.size_bytes() - offset));
  RETURN_IF_ERROR(file.ReadAt(offset, {bytes.data(), count}));
  offset += static_cast<int64_t>(count);
  stream.next_in = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(count);
  return absl::OkStatus();
}

// Decompresses into `result` until it is full or the file ends, and returns how many bytes that is.
absl::StatusOr<int64_t> Inflate(const ReadableFile& file, z_stream& stream,
                                std::vector<std::byte>& result) {
  const auto compressed = std::make_unique<Compressed>();
  int64_t offset = 0;
  int64_t written = 0;
  bool ended = false;  // a stream, after which another one may begin
  while (written < std::ssize(result)) {
    if (stream.avail_in == 0) RETURN_IF_ERROR(Refill(file, offset, *compressed, stream));
    if (stream.avail_in == 0 && ended) break;
    if (stream.avail_in == 0) return file.Corrupt(offset, "the compressed data ends too early");
    if (ended) inflateReset(&stream);
    const int64_t room = std::min<int64_t>(std::ssize(result) - written, int64_t{1} << 30);
    stream.next_out = reinterpret_cast<Bytef*>(result.data() + written);
    stream.avail_out = static_cast<uInt>(room);
    const int code = inflate(&stream, Z_NO_FLUSH);
    written += room - int64_t{stream.avail_out};
    if (code == Z_MEM_ERROR) return NoMemory(file, written);
    if (code != Z_OK && code != Z_STREAM_END) {
      return file.Corrupt(
          offset - int64_t{stream.avail_in},
          absl::StrCat("not gzip's format: ", stream.msg == nullptr ? "no data" : stream.msg));
    }
    ended = code == Z_STREAM_END;
  }
  return written;
}

}  // namespace

absl::StatusOr<std::vector<std::byte>> ReadGzip(const ReadableFile& file, int64_t most_bytes) {
  ASSIGN_OR_RETURN(std::vector<std::byte> result, Room(file, most_bytes));
  z_stream stream = {};
  if (inflateInit2(&stream, kGzipWindowBits) != Z_OK) return NoMemory(file, 0);
  const std::unique_ptr<z_stream, EndInflate> end(&stream);
  ASSIGN_OR_RETURN(const int64_t written, Inflate(file, stream, result));
  result.resize(static_cast<size_t>(written));
  return result;
}

}  // namespace neap
