#include "neap/core/vision/image/decoder.h"

#include <algorithm>
#include <array>
#include <new>

#include "absl/strings/str_cat.h"

namespace neap {
namespace {

constexpr std::array<uint8_t, 3> kJpegMagic = {0xFF, 0xD8, 0xFF};
constexpr std::array<uint8_t, 4> kPngMagic = {0x89, 'P', 'N', 'G'};

template <size_t size>
bool BeginsWith(absl::Span<const uint8_t> bytes, const std::array<uint8_t, size>& magic) {
  return bytes.size() >= size && std::equal(magic.begin(), magic.end(), bytes.begin());
}

}  // namespace

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenImage(absl::Span<const uint8_t> bytes) {
  if (BeginsWith(bytes, kJpegMagic)) return OpenJpeg(bytes);
  if (BeginsWith(bytes, kPngMagic)) return OpenPng(bytes);
  return absl::DataLossError("the file is neither JPEG nor PNG");
}

absl::Status CheckImageSize(const ImageSize& size) {
  if (size.width >= 1 && size.height >= 1 && size.width <= kMaxExtent &&
      size.height <= kMaxExtent && size.width * size.height <= kMaxPixels) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("the image has ", size.width, " x ", size.height,
                                          " pixels; at most ", kMaxPixels,
                                          " are read, and no extent above ", kMaxExtent));
}

absl::Status ReservePixels(DecodedPart& decoded) {
  try {
    decoded.pixels.resize(static_cast<size_t>(4 * decoded.box.width() * decoded.box.height()));
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", decoded.box.width(), " x ",
                                                     decoded.box.height(), " pixels"));
  }
  return absl::OkStatus();
}

}  // namespace neap
