// A folder of photographs for benchmarks of reading: JPEG files with the sizes of ImageNet's.
//
// How long a decoder takes depends on an image's pixels and on its file's bytes. Most of these have
// about 500 x 375 pixels, upright or not, one in 16 has 1024 x 768 and one in 64 has 1600 x 1200;
// colours have half of the resolution (4:2:0), and a file has about 110 kB. White noise would take
// more bytes for each frequency than a photograph, and a gradient less: these are smooth noise
// whose amplitude grows with the wavelength.
//
//   DIR/class0/0.jpg, DIR/class0/10.jpg, ..., DIR/class9/1999.jpg
//
// The same numbers give the same files.
#pragma once

#include <filesystem>

#include "absl/status/status.h"

namespace neap {

// Makes a folder, which must not exist, with `count` files in ten classes, on all cores. It has its
// name once it is complete. Errors: UNKNOWN naming the file that cannot be written.
absl::Status MakePhotographs(const std::filesystem::path& folder, int count);

}  // namespace neap
