// JPEG and PNG files as the floats that a network reads: decoded, cropped, resized, normalised.
//
// Images are resized with antialiasing and normalised by ImageNet's mean and deviation, as
// torchvision does. Pixels are computed in floats, while torchvision rounds to 8 bits after each
// step, so that values differ by about 1/255.
//
//   framing        without a view                                with a view
//   kCentralPart   the shorter side is resized to 256 where      a random crop of 8% to 100%,
//                  224 are wanted, and the middle is cropped     resized, mirrored or not
//   kWhole         all of it, whatever its proportions           the same
//
//   const PhotoReader reader({3, 224, 224}, Framing::kCentralPart, /*apply_orientation=*/false);
//   ASSIGN_OR_RETURN(const ImageSize size, reader.Read("cat.jpg", /*view=*/nullptr, pixels));
//
// Only the part of a file that a crop needs is decoded, so damage elsewhere is not noticed. The
// memory for a file and its pixels is used again for the next one.
//
// *Errors*: those of ReadableFile; DATA_LOSS naming the file for one that is damaged, or larger
// than kMaxFileBytes.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/core/vision/dataset.h"
#include "neap/core/vision/image/decoder.h"
#include "neap/core/vision/image/orientation.h"
#include "neap/core/vision/image/resample.h"

namespace neap {

// Where a dataset of photographs is not told another shape.
inline constexpr ImageShape kPhotoShape = {.c = 3, .h = 224, .w = 224};
// INVALID_ARGUMENT, naming the folder, for a shape that photographs cannot have: of one channel
// they are grey, as ITU-R 601 weights it, and of three they have their colours.
absl::Status CheckPhotoShape(const std::string& directory, const ImageShape& shape);

// The bytes of a file, in the memory, which may have more.
absl::StatusOr<absl::Span<const uint8_t>> ReadImageFile(const std::string& path,
                                                        std::vector<uint8_t>& memory);

enum class Framing : uint8_t { kCentralPart, kWhole };

// *Threads*: safe from several at once.
class PhotoReader {
 public:
  // `shape` is one that CheckPhotoShape() accepts.
  PhotoReader(ImageShape shape, Framing framing, bool apply_orientation)
      : shape_(shape), framing_(framing), apply_orientation_(apply_orientation) {}
  const ImageShape& shape() const { return shape_; }
  // `pixels`: C x H x W. The size is that of the upright image in the file, of which DrawCrop() is
  // the crop of a view.
  absl::StatusOr<ImageSize> Read(const std::string& path, const RandomView* view,
                                 float* pixels) const;

 private:
  struct Scratch {
    std::vector<uint8_t> file;  // its bytes, and then any
    DecodedPart decoded;
  };

  absl::StatusOr<ImageSize> ReadWith(Scratch& scratch, const std::string& path,
                                     const RandomView* view, float* pixels) const;
  absl::Status Decode(ImageDecoder& decoder, const Orientation& turned, const RandomView* view,
                      DecodedPart& decoded, float* pixels) const;
  void Convert(const DecodedPart& decoded, const Taps& rows, const Taps& columns,
               const RandomView* view, float* pixels) const;

  ImageShape shape_;
  Framing framing_;
  bool apply_orientation_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<Scratch>> free_;  // as many as threads have read at a time
};

}  // namespace neap
