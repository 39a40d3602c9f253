#include "tests/image_files.h"

#include <png.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>  // jpeglib.h needs it before
#include <cstdlib>
#include <map>

// After <cstdio>.
#include <jpeglib.h>

#include "neap/core/base/crc32.h"

namespace neap::testing {
namespace {

TestImage Empty(int width, int height) {
  return {
      .width = width,
      .height = height,
      .rgb = std::vector<uint8_t>(3 * static_cast<size_t>(width) * static_cast<size_t>(height))};
}

template <typename Color>
TestImage Painted(int width, int height, const Color& color) {
  TestImage image = Empty(width, height);
  uint8_t* to = image.rgb.data();
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      for (int c = 0; c < 3; ++c)
        *to++ = static_cast<uint8_t>(std::clamp(std::lround(color(x, y, c)), 0L, 255L));
    }
  }
  return image;
}

void FillCmyk(const TestImage& image, int y, std::vector<uint8_t>& row) {
  for (int x = 0; x < image.width; ++x) {
    const uint8_t* const rgb = image.At(x, y);
    const int white = std::max({rgb[0], rgb[1], rgb[2], uint8_t{1}});  // 255 - K
    uint8_t* const to = row.data() + 4 * static_cast<size_t>(x);
    for (int c = 0; c < 3; ++c) to[c] = static_cast<uint8_t>(rgb[c] * 255 / white);
    to[3] = static_cast<uint8_t>(white);
  }
}

struct PngLayout {
  int color_type;
  int bit_depth;
  int bytes;  // of a pixel
};

PngLayout LayoutOf(PngForm form) {
  switch (form) {
    case PngForm::kRgba:
      return {PNG_COLOR_TYPE_RGB_ALPHA, 8, 4};
    case PngForm::kRgb16:
      return {PNG_COLOR_TYPE_RGB, 16, 6};
    case PngForm::kGrey:
      return {PNG_COLOR_TYPE_GRAY, 8, 1};
    case PngForm::kGrey16:
      return {PNG_COLOR_TYPE_GRAY, 16, 2};
    case PngForm::kGreyAlpha:
      return {PNG_COLOR_TYPE_GRAY_ALPHA, 8, 2};
    case PngForm::kPalette:
      return {PNG_COLOR_TYPE_PALETTE, 8, 1};
    case PngForm::kRgb:
      break;
  }
  return {PNG_COLOR_TYPE_RGB, 8, 3};
}

class Palette {
 public:
  uint8_t IndexOf(const uint8_t* rgb) {
    const std::array<uint8_t, 3> color = {rgb[0], rgb[1], rgb[2]};
    const auto [at, is_new] = indices_.try_emplace(color, static_cast<uint8_t>(colors_.size()));
    if (is_new) colors_.push_back({color[0], color[1], color[2]});
    if (colors_.size() > 256) std::abort();
    return at->second;
  }
  const std::vector<png_color>& colors() const { return colors_; }

 private:
  std::map<std::array<uint8_t, 3>, uint8_t> indices_;
  std::vector<png_color> colors_;
};

// A pixel in the file's form. The low byte of 16 bits, and the transparency, vary.
void AppendPixel(PngForm form, const uint8_t* rgb, Palette& palette, std::vector<uint8_t>& row) {
  const auto varied = static_cast<uint8_t>(rgb[0] / 2);
  if (form == PngForm::kPalette) {
    row.push_back(palette.IndexOf(rgb));
    return;
  }
  const bool is_grey =
      form == PngForm::kGrey || form == PngForm::kGrey16 || form == PngForm::kGreyAlpha;
  const bool has_16_bits = form == PngForm::kRgb16 || form == PngForm::kGrey16;
  for (int c = 0; c < (is_grey ? 1 : 3); ++c) {
    row.push_back(rgb[c]);
    if (has_16_bits) row.push_back(rgb[c]);  // 257 * value: exactly value of 255
  }
  if (form == PngForm::kRgba || form == PngForm::kGreyAlpha) row.push_back(varied);
}

}  // namespace

TestImage Solid(int width, int height, uint8_t red, uint8_t green, uint8_t blue) {
  const std::array<double, 3> color = {static_cast<double>(red), static_cast<double>(green),
                                       static_cast<double>(blue)};
  return Painted(width, height, [&](int, int, int c) { return color[static_cast<size_t>(c)]; });
}

TestImage Gradient(int width, int height) {
  return Painted(width, height, [&](int x, int y, int c) {
    const double across = 255.0 * x / std::max(1, width - 1);
    const double down = 255.0 * y / std::max(1, height - 1);
    return c == 0 ? across : c == 1 ? down : (across + down) / 2;
  });
}

TestImage Photo(int width, int height, uint32_t seed) {
  uint32_t noise = seed * 2654435761U + 1;
  const double phase = seed % 628 * 0.01;
  return Painted(width, height, [&](int x, int y, int c) {
    noise = noise * 1664525U + 1013904223U;
    const double shape = std::sin(x * 0.021 + phase + c) * std::cos(y * 0.017 - phase) +
                         0.5 * std::sin((x + 2 * y) * 0.11 + phase * c);
    const double texture = (static_cast<double>(noise >> 24) - 128) * 0.12;
    return 128 + 70 * shape + texture;
  });
}

std::string JpegBytes(const TestImage& image, const JpegOptions& options) {
  jpeg_compress_struct info = {};
  jpeg_error_mgr error = {};
  info.err = jpeg_std_error(&error);  // ends the process after an error, of which there is none
  jpeg_create_compress(&info);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &bytes, &size);
  info.image_width = static_cast<JDIMENSION>(image.width);
  info.image_height = static_cast<JDIMENSION>(image.height);
  const bool is_cmyk = options.form == JpegForm::kCmyk;
  info.input_components = is_cmyk ? 4 : 3;
  info.in_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
  jpeg_set_defaults(&info);
  if (options.form == JpegForm::kGrey) jpeg_set_colorspace(&info, JCS_GRAYSCALE);
  if (is_cmyk) jpeg_set_colorspace(&info, JCS_YCCK);
  jpeg_set_quality(&info, options.quality, TRUE);
  info.comp_info[0].h_samp_factor = info.comp_info[0].v_samp_factor =
      options.form == JpegForm::kColor ? options.sampling : 1;
  if (options.progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  std::vector<uint8_t> row(static_cast<size_t>(4 * image.width));
  for (int y = 0; y < image.height; ++y) {
    if (is_cmyk) {
      FillCmyk(image, y, row);
    } else {
      std::copy_n(image.At(0, y), 3 * image.width, row.begin());
    }
    JSAMPROW rows = row.data();
    jpeg_write_scanlines(&info, &rows, 1);
  }
  jpeg_finish_compress(&info);
  std::string result(reinterpret_cast<char*>(bytes), size);
  jpeg_destroy_compress(&info);
  std::free(bytes);
  return result;
}

std::string PngBytes(const TestImage& image, const PngOptions& options) {
  const PngLayout layout = LayoutOf(options.form);
  Palette palette;
  std::vector<std::vector<uint8_t>> rows(static_cast<size_t>(image.height));
  std::vector<png_bytep> pointers;
  for (int y = 0; y < image.height; ++y) {
    std::vector<uint8_t>& row = rows[static_cast<size_t>(y)];
    row.reserve(static_cast<size_t>(layout.bytes * image.width));
    for (int x = 0; x < image.width; ++x) AppendPixel(options.form, image.At(x, y), palette, row);
    pointers.push_back(row.data());
  }
  std::string result;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &result,
      [](png_structp to, png_bytep bytes, size_t size) {
        static_cast<std::string*>(png_get_io_ptr(to))
            ->append(reinterpret_cast<const char*>(bytes), size);
      },
      [](png_structp) {});
  png_set_IHDR(png, info, static_cast<png_uint_32>(image.width),
               static_cast<png_uint_32>(image.height), layout.bit_depth, layout.color_type,
               options.interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  if (options.form == PngForm::kPalette) {
    png_set_PLTE(png, info, palette.colors().data(), static_cast<int>(palette.colors().size()));
  }
  png_write_info(png, info);
  png_write_image(png, pointers.data());
  png_write_end(png, info);
  png_destroy_write_struct(&png, &info);
  return result;
}

namespace {

std::string NumberBytes(uint32_t value, int size, bool little_endian = false) {
  std::string bytes;
  for (int i = 0; i < size; ++i)
    bytes += static_cast<char>(value >> 8 * (little_endian ? i : size - 1 - i) & 0xFF);
  return bytes;
}

}  // namespace

std::string ExifBytes(int orientation, bool little_endian) {
  const auto number = [&](uint32_t value, int size) {
    return NumberBytes(value, size, little_endian);
  };
  constexpr uint32_t kShort = 3;
  const auto tag = [&](uint32_t name, uint32_t value) {
    return number(name, 2) + number(kShort, 2) + number(1, 4) + number(value, 2) + number(0, 2);
  };
  return (little_endian ? "II" : "MM") + number(42, 2) + number(8, 4) + number(3, 2) +
         tag(0x0103, 6) + tag(0x0112, static_cast<uint32_t>(orientation)) + tag(0x0128, 2) +
         number(0, 4);
}

std::string WithExif(const std::string& file, const std::string& exif) {
  if (file.starts_with("\xFF\xD8")) {
    const std::string segment = std::string("Exif\0\0", 6) + exif;
    const auto size = static_cast<uint32_t>(segment.size() + 2);
    return file.substr(0, 2) + "\xFF\xE1" + NumberBytes(size, 2) + segment + file.substr(2);
  }
  constexpr size_t kBeforeChunks = 8 + 25;  // the signature and IHDR
  const std::string chunk = "eXIf" + exif;
  Crc32 crc;
  crc.Add({reinterpret_cast<const std::byte*>(chunk.data()), chunk.size()});
  return file.substr(0, kBeforeChunks) + NumberBytes(static_cast<uint32_t>(exif.size()), 4) +
         chunk + NumberBytes(crc.value(), 4) + file.substr(kBeforeChunks);
}

}  // namespace neap::testing
