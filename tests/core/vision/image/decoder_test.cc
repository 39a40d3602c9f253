#include "neap/core/vision/image/decoder.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tests/image_files.h"

namespace neap {
namespace {

using testing::Gradient;
using testing::JpegBytes;
using testing::JpegForm;
using testing::Photo;
using testing::PngBytes;
using testing::PngForm;
using testing::Solid;
using testing::TestImage;

absl::Span<const uint8_t> Bytes(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

PixelBox Whole(const ImageSize& size) { return {0, 0, size.width, size.height}; }

// In full resolution.
constexpr ImageSize kFull = {kMaxExtent, kMaxExtent};

absl::StatusOr<DecodedPart> Decode(const std::string& file,
                                   std::optional<PixelBox> part = std::nullopt,
                                   ImageSize least = kFull) {
  absl::StatusOr<std::unique_ptr<ImageDecoder>> decoder = OpenImage(Bytes(file));
  if (!decoder.ok()) return decoder.status();
  DecodedPart decoded;
  const absl::Status status =
      (*decoder)->Decode(part.value_or(Whole((*decoder)->size())), least, decoded);
  if (!status.ok()) return status;
  return decoded;
}

DecodedPart MustDecode(const std::string& file, std::optional<PixelBox> part = std::nullopt,
                       ImageSize least = kFull) {
  absl::StatusOr<DecodedPart> decoded = Decode(file, part, least);
  REQUIRE_MESSAGE(decoded.ok(), decoded.status().ToString());
  return *std::move(decoded);
}

const uint8_t* PixelAt(const DecodedPart& decoded, int64_t x, int64_t y) {
  return decoded.Row(y) + 4 * (x - decoded.box.left);
}

// The largest difference of a channel, over the pixels of `box` of both.
int Difference(const DecodedPart& a, const DecodedPart& b, const PixelBox& box) {
  int most = 0;
  for (int64_t y = box.top; y < box.bottom; ++y) {
    for (int64_t x = box.left; x < box.right; ++x) {
      for (int c = 0; c < 3; ++c)
        most = std::max(most, std::abs(PixelAt(a, x, y)[c] - PixelAt(b, x, y)[c]));
    }
  }
  return most;
}

int Difference(const DecodedPart& decoded, const TestImage& image) {
  REQUIRE(decoded.reduction == 1);
  REQUIRE(decoded.box == Whole({image.width, image.height}));
  int most = 0;
  for (int y = 0; y < image.height; ++y) {
    for (int x = 0; x < image.width; ++x) {
      for (int c = 0; c < 3; ++c)
        most = std::max(most, std::abs(PixelAt(decoded, x, y)[c] - image.At(x, y)[c]));
    }
  }
  return most;
}

// Red in all three channels.
TestImage Greyed(TestImage image) {
  for (size_t i = 0; i < image.rgb.size(); ++i) image.rgb[i] = image.rgb[i / 3 * 3];
  return image;
}

TEST_CASE("PNG files are exact in every form: palettes, grey, 16 bits, transparency, interlaced") {
  const TestImage image = Gradient(37, 23);
  const TestImage few = Gradient(15, 13);
  for (const bool interlaced : {false, true}) {
    CAPTURE(interlaced);
    for (const PngForm form : {PngForm::kRgb, PngForm::kRgba, PngForm::kRgb16}) {
      CHECK(Difference(MustDecode(PngBytes(image, {form, interlaced})), image) == 0);
    }
    for (const PngForm form : {PngForm::kGrey, PngForm::kGrey16, PngForm::kGreyAlpha}) {
      CHECK(Difference(MustDecode(PngBytes(image, {form, interlaced})), Greyed(image)) == 0);
    }
    CHECK(Difference(MustDecode(PngBytes(few, {PngForm::kPalette, interlaced})), few) == 0);
  }
}

TEST_CASE("JPEG files become red, green and blue, also grey and CMYK ones") {
  const TestImage image = Gradient(90, 61);
  for (const bool progressive : {false, true}) {
    CAPTURE(progressive);
    const auto most = [&](const TestImage& from, JpegForm form, const TestImage& to) {
      const std::string file =
          JpegBytes(from, {.quality = 98, .form = form, .progressive = progressive});
      return Difference(MustDecode(file), to);
    };
    CHECK(most(Solid(33, 17, 200, 30, 90), JpegForm::kColor, Solid(33, 17, 200, 30, 90)) <= 2);
    CHECK(most(image, JpegForm::kColor, image) <= 6);
    const TestImage grey = Greyed(image);
    CHECK(most(grey, JpegForm::kGrey, grey) <= 3);
    CHECK(most(Solid(33, 17, 200, 30, 90), JpegForm::kCmyk, Solid(33, 17, 200, 30, 90)) <= 4);
  }
}

TEST_CASE("a part of an image has the pixels that decoding all of it gives") {
  std::mt19937 random(3);
  const auto below = [&](int64_t count) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(count));
  };
  const TestImage photo = Photo(211, 157, 1);
  std::vector<std::string> files = {PngBytes(photo), PngBytes(photo, {.interlaced = true})};
  for (const bool progressive : {false, true}) {
    for (const int sampling : {1, 2})
      files.push_back(JpegBytes(photo, {.sampling = sampling, .progressive = progressive}));
    files.push_back(JpegBytes(photo, {.form = JpegForm::kGrey, .progressive = progressive}));
  }
  for (const std::string& file : files) {
    for (const int64_t reduction : {1, 2, 4, 8}) {
      // As many pixels as that many times fewer.
      const auto least = [&](const PixelBox& part) {
        return ImageSize{part.width() / reduction, part.height() / reduction};
      };
      const PixelBox all = {.right = 211, .bottom = 157};
      const DecodedPart whole = MustDecode(file, all, least(all));
      for (int round = 0; round < 40; ++round) {
        const int64_t width = 8 + below(203);
        const int64_t height = 8 + below(149);
        const int64_t left = below(211 - width + 1);
        const int64_t top = below(157 - height + 1);
        const PixelBox part = {left, top, left + width, top + height};
        const DecodedPart decoded = MustDecode(file, part, least(part));
        REQUIRE(decoded.reduction == whole.reduction);
        const int64_t by = decoded.reduction;
        const PixelBox needed = {left / by, top / by, (left + width + by - 1) / by,
                                 (top + height + by - 1) / by};
        REQUIRE(decoded.box.left <= needed.left);
        REQUIRE(decoded.box.right >= needed.right);
        REQUIRE(decoded.box.top <= needed.top);
        REQUIRE(decoded.box.bottom >= needed.bottom);
        CHECK(Difference(decoded, whole, needed) == 0);
      }
    }
  }
}

TEST_CASE("JPEG files are reduced only as far as enough pixels are left") {
  const std::string file = JpegBytes(Photo(400, 320, 2));
  CHECK(MustDecode(file, {}, {50, 40}).reduction == 8);
  CHECK(MustDecode(file, {}, {51, 40}).reduction == 4);
  CHECK(MustDecode(file, {}, {100, 81}).reduction == 2);
  CHECK(MustDecode(file, {}, {201, 10}).reduction == 1);
  CHECK(MustDecode(file, PixelBox{100, 100, 300, 260}, {50, 40}).reduction == 4);
  // Reduced pixels are close to means.
  const DecodedPart full = MustDecode(file);
  const DecodedPart quarter = MustDecode(file, {}, {100, 80});
  REQUIRE(quarter.box == Whole({100, 80}));
  double error = 0;
  for (int64_t y = 0; y < 80; ++y) {
    for (int64_t x = 0; x < 100; ++x) {
      int sum = 0;
      for (int64_t i = 0; i < 16; ++i) sum += PixelAt(full, 4 * x + i % 4, 4 * y + i / 4)[1];
      error += std::abs(sum / 16.0 - PixelAt(quarter, x, y)[1]);
    }
  }
  CHECK(error / 8000 < 2);
}

TEST_CASE("files of no known format, truncated ones and huge ones are errors that say so") {
  const auto message = [](const std::string& file) {
    const absl::Status status = Decode(file).status();
    CHECK(absl::IsDataLoss(status));
    return std::string(status.message());
  };
  CHECK(message("") == "the file is neither JPEG nor PNG");
  CHECK(message("GIF89a") == "the file is neither JPEG nor PNG");
  const std::string jpeg = JpegBytes(Photo(200, 150, 4));
  const std::string png = PngBytes(Photo(200, 150, 4));
  CHECK(message(jpeg.substr(0, jpeg.size() / 2)) == "Premature end of JPEG file");
  CHECK(message(png.substr(0, png.size() / 2)) == "the file is truncated");
  std::string huge_jpeg = jpeg;
  const size_t frame = huge_jpeg.find("\xFF\xC0");
  huge_jpeg.replace(frame + 5, 4, "\xFF\xDC\xFF\xDC");
  CHECK(message(huge_jpeg).find("the image has 65500 x 65500 pixels; at most 67108864") == 0);
  std::string damaged = png;
  damaged[png.size() - 14] ^= 0x10;  // of the checksum before the last chunk
  CHECK(message(damaged) == "IDAT: CRC error");
}

// All of an image, or its middle, in few pixels.
absl::Status DecodeSome(const std::string& file, bool whole) {
  absl::StatusOr<std::unique_ptr<ImageDecoder>> decoder = OpenImage(Bytes(file));
  if (!decoder.ok()) return decoder.status();
  const ImageSize size = (*decoder)->size();
  const PixelBox middle = {size.width / 3, size.height / 3, size.width - size.width / 3,
                           size.height - size.height / 3};
  DecodedPart decoded;
  return (*decoder)->Decode(whole ? Whole(size) : middle, {8, 8}, decoded);
}

TEST_CASE("2,000 mutated files end in an image or an error, quickly and in little memory") {
  std::mt19937 random(7);
  const TestImage photo = Photo(64, 48, 5);
  const std::vector<std::string> files = {
      JpegBytes(photo),
      JpegBytes(photo, {.progressive = true}),
      JpegBytes(photo, {.form = JpegForm::kCmyk}),
      PngBytes(photo),
      PngBytes(photo, {.form = PngForm::kRgb16, .interlaced = true}),
      PngBytes(Gradient(15, 13), {.form = PngForm::kPalette})};
  const auto start = std::chrono::steady_clock::now();
  int images = 0;
  for (int round = 0; round < 2000; ++round) {
    CAPTURE(round);
    std::string file = files[static_cast<size_t>(round) % files.size()];
    const uint32_t changes = 1 + random() % 8;
    for (uint32_t i = 0; i < changes; ++i) {
      // Half of the changes are among the headers.
      const size_t at = random() % (i % 2 == 0 ? std::min<size_t>(file.size(), 700) : file.size());
      file[at] = static_cast<char>(random());
    }
    if (round % 5 == 0) file.resize(random() % file.size());
    const absl::Status status = DecodeSome(file, /*whole=*/round % 2 == 0);
    images += status.ok() ? 1 : 0;
    if (!status.ok()) CHECK(!status.message().empty());
  }
  MESSAGE(images, " of 2000 are still images");
  CHECK(images > 100);
  CHECK(images < 1900);
#ifndef __SANITIZE_ADDRESS__  // which keeps freed memory
  rusage use = {};
  getrusage(RUSAGE_SELF, &use);
  CHECK(use.ru_maxrss < 1024 * 1024);  // KiB
#endif
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::minutes(2));
}

}  // namespace
}  // namespace neap
