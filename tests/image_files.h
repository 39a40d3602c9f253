// Images, and the files that libjpeg and libpng make of them.
//
//   const TestImage photo = Photo(500, 375, /*seed=*/1);
//   WriteText(path, JpegBytes(photo, {.quality = 90}));
//   WriteText(path, PngBytes(photo, {.form = PngForm::kPalette}));
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace neap::testing {

struct TestImage {
  int width = 0;
  int height = 0;
  std::vector<uint8_t> rgb;  // row by row

  const uint8_t* At(int x, int y) const {
    return rgb.data() +
           3 * (static_cast<size_t>(y) * static_cast<size_t>(width) + static_cast<size_t>(x));
  }
};

TestImage Solid(int width, int height, uint8_t red, uint8_t green, uint8_t blue);
// Red grows to the right, green downwards, blue with both.
TestImage Gradient(int width, int height);
// Smooth shapes with fine texture, about as hard to compress as a photograph.
TestImage Photo(int width, int height, uint32_t seed);

enum class JpegForm : uint8_t { kColor, kGrey, kCmyk };

struct JpegOptions {
  int quality = 95;
  JpegForm form = JpegForm::kColor;  // kGrey takes red; kCmyk is inverted, with all black in K
  int sampling = 2;                  // luma samples for each of chroma, along both axes
  bool progressive = false;
};
std::string JpegBytes(const TestImage& image, const JpegOptions& options = {});

enum class PngForm : uint8_t { kRgb, kRgba, kRgb16, kGrey, kGrey16, kGreyAlpha, kPalette };

struct PngOptions {
  PngForm form = PngForm::kRgb;  // grey takes red; a palette must suffice with 256 colours
  bool interlaced = false;
};
std::string PngBytes(const TestImage& image, const PngOptions& options = {});

// EXIF data with an orientation, from 1 to 8, among other tags.
std::string ExifBytes(int orientation, bool little_endian);
// The JPEG or PNG file with this EXIF data.
std::string WithExif(const std::string& file, const std::string& exif);

}  // namespace neap::testing
