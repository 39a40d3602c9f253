// In a build without libjpeg-turbo or libpng.
#include "neap/core/vision/image/decoder.h"

namespace neap {

absl::Status CheckImageLibraries() {
  return absl::UnimplementedError(
      "this build of neap cannot decode images: libjpeg-turbo or libpng was not found; install the "
      "Debian packages libjpeg-dev and libpng-dev, and build it again");
}

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenJpeg(absl::Span<const uint8_t> /*bytes*/) {
  return CheckImageLibraries();
}

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenPng(absl::Span<const uint8_t> /*bytes*/) {
  return CheckImageLibraries();
}

absl::StatusOr<IndexedImage> DecodeIndices(absl::Span<const uint8_t> /*bytes*/) {
  return CheckImageLibraries();
}

}  // namespace neap
