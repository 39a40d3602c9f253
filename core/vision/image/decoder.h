// Decoders of image files, for datasets of many images of which a network reads a small part each.
//
// Decoding takes most of the time of reading a photograph, and the network reads a crop of it, in a
// lower resolution. A decoder is therefore told which part is needed, and in how many pixels: JPEG
// is decoded in 1/2, 1/4 or 1/8 of its resolution where that suffices (which takes the lower
// frequencies of each block alone), and what lies outside of the part is skipped.
//
//   ASSIGN_OR_RETURN(const std::unique_ptr<ImageDecoder> decoder, OpenImage(bytes));
//   const ImageSize size = decoder->size();
//   DecodedPart decoded;
//   RETURN_IF_ERROR(decoder->Decode({.right = size.width, .bottom = size.height},
//                                   /*least=*/{224, 224}, decoded));
//   const uint8_t red = decoded.pixels[0];  // of the first pixel
//
// All images become red, green and blue of 8 bits: grey is repeated, CMYK is converted as Pillow
// does (inverted, as Adobe's programs write it), palettes are looked up, 16 bits are rounded to 8,
// and transparency is dropped. The orientation in a file's EXIF data
// (core/vision/image/orientation.h) is the caller's to apply.
//
// Files may be damaged, or made to exhaust the memory. An image has at most kMaxPixels pixels and
// kMaxExtent rows and columns, and no decoder takes more than 12 bytes for each pixel, so that one
// file takes less than 1 GiB.
//
// *Errors*: DATA_LOSS saying what is wrong with the file, whose name the caller knows: damaged or
// truncated within what had to be read for the part, too large, or of no known format.
// RESOURCE_EXHAUSTED if there is not enough memory. UNIMPLEMENTED in a build without the libraries.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace neap {

inline constexpr int64_t kMaxPixels = int64_t{1} << 26;
inline constexpr int64_t kMaxExtent = 65535;
inline constexpr int64_t kMaxFileBytes = int64_t{1} << 26;

struct ImageSize {
  int64_t width = 0;
  int64_t height = 0;
  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

// The columns [left, right) and rows [top, bottom).
struct PixelBox {
  int64_t left = 0;
  int64_t top = 0;
  int64_t right = 0;
  int64_t bottom = 0;
  int64_t width() const { return right - left; }
  int64_t height() const { return bottom - top; }
  friend bool operator==(const PixelBox&, const PixelBox&) = default;
};

struct DecodedPart {
  int64_t reduction = 1;        // pixel (x, y) stands for reduction x reduction of the image's
  PixelBox box = {};            // the decoded part, in pixels of the reduced image
  std::vector<uint8_t> pixels;  // row by row, 4 bytes for each: red, green, blue, and any value

  const uint8_t* Row(int64_t y) const { return pixels.data() + (y - box.top) * box.width() * 4; }
};

// One file, which is decoded once. *Ownership*: borrows the file's bytes.
class ImageDecoder {
 public:
  virtual ~ImageDecoder() = default;
  virtual ImageSize size() const = 0;
  // Decodes at least `part`, which is within the image and not empty, in at least `least` pixels if
  // it has so many. The memory of `decoded` is used again.
  virtual absl::Status Decode(const PixelBox& part, const ImageSize& least,
                              DecodedPart& decoded) = 0;
};

// Reads the header of a file, whose format is told by its first bytes.
absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenImage(absl::Span<const uint8_t> bytes);
absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenJpeg(absl::Span<const uint8_t> bytes);
absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenPng(absl::Span<const uint8_t> bytes);

// The numbers that a PNG file of one channel has for its pixels, such as a mask's classes: the
// places in the palette, without a look at its colours, or grey values as they are stored.
struct IndexedImage {
  ImageSize size;
  std::vector<uint8_t> indices;  // row by row
};
// Errors: also DATA_LOSS for a file that is no PNG, or has several channels or more than 8 bits.
absl::StatusOr<IndexedImage> DecodeIndices(absl::Span<const uint8_t> bytes);

// UNIMPLEMENTED, naming the packages, if this build cannot decode images.
absl::Status CheckImageLibraries();

// DATA_LOSS for an image that has no pixels or too many. For decoders.
absl::Status CheckImageSize(const ImageSize& size);
// Sizes `decoded` for its box; the values are unspecified.
absl::Status ReservePixels(DecodedPart& decoded);

}  // namespace neap
