// The examples in the headers of core/vision/image/, which must compile. See
// scripts/check_examples.py.
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/vision/image/decoder.h"
#include "neap/core/vision/image/orientation.h"
#include "neap/core/vision/image/resample.h"

namespace neap::header_examples::image {

// core/vision/image/decoder.h
absl::Status DecodeFile(absl::Span<const uint8_t> bytes) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ImageDecoder> decoder, OpenImage(bytes));
  const ImageSize size = decoder->size();
  DecodedPart decoded;
  RETURN_IF_ERROR(decoder->Decode({.right = size.width, .bottom = size.height},
                                  /*least=*/{224, 224}, decoded));
  const uint8_t red = decoded.pixels[0];  // of the first pixel
  return absl::OkStatus();
}

// core/vision/image/orientation.h
void Turn(absl::Span<const uint8_t> bytes, const ImageSize& size) {
  const Orientation turned = ReadOrientation(bytes);
  const ImageSize upright = turned.transposed ? ImageSize{size.height, size.width} : size;
}

// core/vision/image/resample.h
void Resize(const DecodedPart& decoded, float* planes) {
  const Taps columns({.extent = 500, .outputs = 224, .clip_end = 500});
  const Taps rows({.extent = 375, .outputs = 224, .clip_end = 375});
  Resample(decoded, rows, columns, {{1, 1, 1}, {0, 0, 0}}, planes);  // from 0 to 255
}

}  // namespace neap::header_examples::image
