// PNG files by libpng.
#include <png.h>

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/vision/image/decoder.h"

namespace neap {
namespace {

class PngDecoder final : public ImageDecoder {
 public:
  explicit PngDecoder(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}
  ~PngDecoder() override { png_destroy_read_struct(&png_, &info_, nullptr); }

  absl::Status ReadHeader() {
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, Fail, Warn);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ == nullptr) return absl::ResourceExhaustedError("no memory to decode a PNG file");
    RETURN_IF_ERROR(Guarded([&] {
      png_set_user_limits(png_, kMaxExtent, kMaxExtent);
      // Chunks that do not change pixels are skipped: libpng takes as much memory for some as they
      // say they need, before it reads them.
      png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
      png_set_read_fn(png_, this, Read);
      png_read_info(png_, info_);
    }));
    return CheckImageSize(size());
  }

  ImageSize size() const override {
    return {png_get_image_width(png_, info_), png_get_image_height(png_, info_)};
  }

  absl::Status Decode(const PixelBox& part, const ImageSize& /*least*/,
                      DecodedPart& decoded) override {
    bool has_passes = false;
    RETURN_IF_ERROR(Guarded([&] {
      ConvertToRgb();
      has_passes = png_set_interlace_handling(png_) > 1;
      png_read_update_info(png_, info_);
      if (png_get_rowbytes(png_, info_) != static_cast<size_t>(4 * size().width))
        png_error(png_, "a pixel format that is not read");
    }));
    decoded.reduction = 1;
    decoded.box = {.right = size().width, .bottom = size().height};
    // The passes of an interlaced image go over all of it.
    if (!has_passes) decoded.box = {0, part.top, size().width, part.bottom};
    RETURN_IF_ERROR(ReservePixels(decoded));
    if (has_passes) return ReadPasses(decoded);
    return Guarded([&] {
      // The rows above the part are overwritten.
      for (int64_t row = 0; row < part.bottom; ++row)
        png_read_row(png_, RowOf(decoded, std::max<int64_t>(0, row - part.top)), nullptr);
    });
  }

  absl::StatusOr<IndexedImage> DecodeIndices() {
    const png_byte type = png_get_color_type(png_, info_);
    const int bits = png_get_bit_depth(png_, info_);
    if ((type != PNG_COLOR_TYPE_PALETTE && type != PNG_COLOR_TYPE_GRAY) || bits > 8) {
      return absl::DataLossError(absl::StrCat("the image has ", int{png_get_channels(png_, info_)},
                                              " channels of ", bits,
                                              " bits, not one of up to 8 with numbers"));
    }
    IndexedImage image = {.size = size()};
    try {
      image.indices.resize(static_cast<size_t>(image.size.width * image.size.height));
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError("no memory for the pixels of a PNG file");
    }
    std::vector<png_bytep> rows;
    for (int64_t row = 0; row < image.size.height; ++row)
      rows.push_back(image.indices.data() + row * image.size.width);
    RETURN_IF_ERROR(Guarded([&] {
      png_set_packing(png_);  // a byte for each pixel, with its bits as they are
      png_set_interlace_handling(png_);
      png_read_update_info(png_, info_);
      if (png_get_rowbytes(png_, info_) != static_cast<size_t>(size().width))
        png_error(png_, "a pixel format that is not read");
      png_read_image(png_, rows.data());
    }));
    return image;
  }

 private:
  [[noreturn]] static void Fail(png_structp png, png_const_charp message) {
    auto* const self = static_cast<PngDecoder*>(png_get_error_ptr(png));
    std::snprintf(self->message_, sizeof self->message_, "%s", message);
    longjmp(self->jump_, 1);
  }
  // libpng warns of what does not change pixels, such as bytes behind the end of the image.
  static void Warn(png_structp /*png*/, png_const_charp /*message*/) {}

  static void Read(png_structp png, png_bytep to, size_t count) {
    auto* const self = static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (count > self->bytes_.size() - self->offset_) png_error(png, "the file is truncated");
    std::memcpy(to, self->bytes_.data() + self->offset_, count);
    self->offset_ += count;
  }

  // Calls `work`, in which libpng may fail. longjmp() leaves libpng's frames, which are C, and
  // `work`, which has no destructors to call.
  template <typename Work>
  absl::Status Guarded(const Work& work) {
    if (setjmp(jump_) != 0) return absl::DataLossError(message_);
    work();
    return absl::OkStatus();
  }

  // Red, green, blue and a fourth byte: transparency, or a filler.
  void ConvertToRgb() {
    png_set_scale_16(png_);
    png_set_palette_to_rgb(png_);
    png_set_expand_gray_1_2_4_to_8(png_);
    png_set_gray_to_rgb(png_);
    png_set_filler(png_, 0xFF, PNG_FILLER_AFTER);
  }

  static png_bytep RowOf(DecodedPart& decoded, int64_t row) {
    return decoded.pixels.data() + row * decoded.box.width() * 4;
  }

  absl::Status ReadPasses(DecodedPart& decoded) {
    std::vector<png_bytep> rows;
    for (int64_t row = 0; row < decoded.box.height(); ++row) rows.push_back(RowOf(decoded, row));
    return Guarded([&] { png_read_image(png_, rows.data()); });
  }

  absl::Span<const uint8_t> bytes_;
  size_t offset_ = 0;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  jmp_buf jump_ = {};
  char message_[256] = {};
};

}  // namespace

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenPng(absl::Span<const uint8_t> bytes) {
  auto decoder = std::make_unique<PngDecoder>(bytes);
  RETURN_IF_ERROR(decoder->ReadHeader());
  return decoder;
}

absl::StatusOr<IndexedImage> DecodeIndices(absl::Span<const uint8_t> bytes) {
  PngDecoder decoder(bytes);
  RETURN_IF_ERROR(decoder.ReadHeader());
  return decoder.DecodeIndices();
}

}  // namespace neap
