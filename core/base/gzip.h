// The contents of files that gzip has compressed, as MNIST's are offered for download.
//
// A few kilobytes may decompress to gigabytes, and a damaged file to anything. A reader therefore
// says how many bytes it wants, and ReadGzip() takes memory only for those that are there: deflate
// compresses to no less than a 1032nd.
//
//   ASSIGN_OR_RETURN(const ReadableFile file, ReadableFile::Open("train-labels-idx1-ubyte.gz"));
//   ASSIGN_OR_RETURN(const std::vector<std::byte> header, ReadGzip(file, /*most_bytes=*/8));
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/base/file.h"

namespace neap {

// The first `most_bytes` of what the file decompresses to, or all of it if it is shorter. Several
// compressed streams in one file are read as one. Errors: DATA_LOSS for a file that is not
// compressed, is truncated, or does not have its checksum (if it is read to the end);
// RESOURCE_EXHAUSTED if there is not enough memory.
absl::StatusOr<std::vector<std::byte>> ReadGzip(const ReadableFile& file, int64_t most_bytes);

}  // namespace neap
