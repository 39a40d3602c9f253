#include "neap/core/vision/image/orientation.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

namespace neap {
namespace {

using Bytes = absl::Span<const uint8_t>;

constexpr uint64_t kOrientationTag = 0x0112;

// By the tag's value, which begins at 1.
constexpr std::array<Orientation, 8> kOrientations = {{{false, false, false},
                                                       {false, true, false},
                                                       {false, true, true},
                                                       {false, false, true},
                                                       {true, false, false},
                                                       {true, false, true},
                                                       {true, true, true},
                                                       {true, true, false}}};

// An unsigned number of `size` bytes; 0 if these are not all there.
uint64_t Number(Bytes bytes, uint64_t offset, uint64_t size, bool little_endian = false) {
  if (offset > bytes.size() || size > bytes.size() - offset) return 0;
  uint64_t value = 0;
  for (uint64_t i = 0; i < size; ++i)
    value = value << 8 | bytes[offset + (little_endian ? size - 1 - i : i)];
  return value;
}

bool HasAt(Bytes bytes, uint64_t offset, std::string_view text) {
  return offset <= bytes.size() && text.size() <= bytes.size() - offset &&
         std::equal(text.begin(), text.end(), bytes.begin() + static_cast<ptrdiff_t>(offset),
                    [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

// EXIF data is a TIFF file without an image: byte order, and the offset of a list of tags.
Orientation OfTiff(Bytes tiff) {
  const bool little_endian = HasAt(tiff, 0, std::string_view("II\x2A\0", 4));
  if (!little_endian && !HasAt(tiff, 0, std::string_view("MM\0\x2A", 4))) return {};
  const uint64_t list = Number(tiff, 4, 4, little_endian);
  const uint64_t tags = Number(tiff, list, 2, little_endian);
  for (uint64_t i = 0; i < tags; ++i) {
    constexpr uint64_t kTagBytes = 12;
    const uint64_t tag = list + 2 + kTagBytes * i;
    if (Number(tiff, tag, 2, little_endian) != kOrientationTag) continue;
    const uint64_t value = Number(tiff, tag + 8, 2, little_endian);
    return value >= 1 && value <= kOrientations.size() ? kOrientations[value - 1] : Orientation();
  }
  return {};
}

// Searches the segments before the pixels.
Orientation OfJpeg(Bytes bytes) {
  constexpr uint8_t kExifSegment = 0xE1;
  constexpr uint8_t kScan = 0xDA;
  constexpr std::string_view kExif("Exif\0\0", 6);
  uint64_t at = 2;
  while (at + 4 <= bytes.size() && bytes[at] == 0xFF) {
    const uint8_t marker = bytes[at + 1];
    if (marker == 0xFF) {  // before a marker there may be more of these
      ++at;
      continue;
    }
    const uint64_t size = Number(bytes, at + 2, 2);
    if (marker == kScan || size < 2 || size > bytes.size() - at - 2) break;
    if (marker == kExifSegment && HasAt(bytes, at + 4, kExif) && size >= 2 + kExif.size())
      return OfTiff(bytes.subspan(at + 4 + kExif.size(), size - 2 - kExif.size()));
    at += 2 + size;
  }
  return {};
}

Orientation OfPng(Bytes bytes) {
  constexpr uint64_t kSignatureBytes = 8;
  constexpr uint64_t kFrameBytes = 12;  // of a chunk: its size, name and checksum
  uint64_t at = kSignatureBytes;
  while (at + kFrameBytes <= bytes.size()) {
    const uint64_t size = Number(bytes, at, 4);
    if (size > bytes.size() - at - kFrameBytes) break;
    if (HasAt(bytes, at + 4, "eXIf")) return OfTiff(bytes.subspan(at + 8, size));
    at += kFrameBytes + size;
  }
  return {};
}

}  // namespace

Orientation ReadOrientation(absl::Span<const uint8_t> bytes) {
  if (HasAt(bytes, 0, "\xFF\xD8\xFF")) return OfJpeg(bytes);
  if (HasAt(bytes, 0, "\x89PNG")) return OfPng(bytes);
  return {};
}

}  // namespace neap
