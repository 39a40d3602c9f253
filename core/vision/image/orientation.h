// How a photograph has to be turned to be upright. Cameras store the pixels as the sensor lies, and
// write into the file's EXIF data how it was held.
//
//   stored   orientation   upright
//
//    a b         6 (held     d a      column x of the upright image is row 1 - x of the stored one:
//    d c         to the      c b      transposed, and its rows are reversed
//                right)
//
//   const Orientation turned = ReadOrientation(bytes);
//   const ImageSize upright = turned.transposed ? ImageSize{size.height, size.width} : size;
#pragma once

#include <cstdint>

#include "absl/types/span.h"

namespace neap {

// Pixel (x, y) of the upright image is the stored pixel (x, y), or (y, x) if it is transposed, of
// which either coordinate then counts from the other end.
struct Orientation {
  bool transposed = false;
  bool columns_reversed = false;
  bool rows_reversed = false;
  friend bool operator==(const Orientation&, const Orientation&) = default;
};

// The orientation of a JPEG or PNG file, of which all bytes are given. A file that says nothing, or
// nothing that can be read, is upright.
Orientation ReadOrientation(absl::Span<const uint8_t> bytes);

}  // namespace neap
