// JPEG files by libjpeg-turbo, which decodes a part of an image (jpeg_crop_scanline,
// jpeg_skip_scanlines) and writes pixels of 4 bytes (JCS_EXT_RGBX).
#include <csetjmp>
#include <cstdio>  // jpeglib.h needs it before
#include <cstring>
#include <utility>

// After <cstdio>.
#include <jerror.h>
#include <jpeglib.h>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/vision/image/decoder.h"

namespace neap {
namespace {

// A progressive file has about ten scans. Each goes over all of the image, so that without a limit
// a small file could take hours.
constexpr int kMaxScans = 100;

// Pixels beside a part that are decoded too: at its edges libjpeg interpolates colours as at those
// of the image.
constexpr int64_t kMargin = 2;

// The warnings of libjpeg after which all pixels are as they were written. After any other, some
// are missing or made up.
bool KeepsPixels(int warning) {
  return warning == JWRN_EXTRANEOUS_DATA || warning == JWRN_TOO_MUCH_DATA ||
         warning == JWRN_ADOBE_XFORM || warning == JWRN_JFIF_MAJOR;
}

struct ErrorState {
  jpeg_error_mgr base;  // first: libjpeg knows only this
  jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
};

// longjmp() leaves libjpeg's frames, which are C, and the lambda of Guarded(), which has no
// destructors to call.
[[noreturn]] void Fail(j_common_ptr info) {
  auto* const error = reinterpret_cast<ErrorState*>(info->err);
  error->base.format_message(info, error->message);
  longjmp(error->jump, 1);
}

void Warn(j_common_ptr info, int level) {
  if (level < 0 && !KeepsPixels(info->err->msg_code)) Fail(info);
}

void LimitScans(j_common_ptr info) {
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number <= kMaxScans) return;
  auto* const error = reinterpret_cast<ErrorState*>(info->err);
  std::snprintf(error->message, sizeof error->message, "more than %d scans", kMaxScans);
  longjmp(error->jump, 1);
}

class JpegDecoder final : public ImageDecoder {
 public:
  JpegDecoder() {
    info_.err = jpeg_std_error(&error_.base);
    error_.base.error_exit = Fail;
    error_.base.emit_message = Warn;
    progress_.progress_monitor = LimitScans;
  }
  ~JpegDecoder() override { jpeg_destroy_decompress(&info_); }

  absl::Status ReadHeader(absl::Span<const uint8_t> bytes) {
    RETURN_IF_ERROR(Guarded([&] {
      jpeg_create_decompress(&info_);
      info_.progress = &progress_;
      jpeg_mem_src(&info_, bytes.data(), bytes.size());
      jpeg_read_header(&info_, TRUE);
    }));
    return CheckImageSize(size());
  }

  ImageSize size() const override { return {info_.image_width, info_.image_height}; }

  absl::Status Decode(const PixelBox& part, const ImageSize& least, DecodedPart& decoded) override {
    const int64_t reduction = Reduction(part, least);
    const bool is_cmyk = info_.jpeg_color_space == JCS_CMYK || info_.jpeg_color_space == JCS_YCCK;
    RETURN_IF_ERROR(Guarded([&] {
      info_.scale_num = 1;
      info_.scale_denom = static_cast<unsigned>(reduction);
      info_.out_color_space = is_cmyk ? JCS_CMYK : JCS_EXT_RGBX;
      jpeg_start_decompress(&info_);
      decoded.reduction = reduction;
      decoded.box = Crop(part, reduction);
    }));
    RETURN_IF_ERROR(ReservePixels(decoded));
    RETURN_IF_ERROR(Guarded([&] { ReadRows(decoded); }));
    if (is_cmyk) ConvertCmyk(decoded);
    return absl::OkStatus();
  }

 private:
  // Calls `work`, in which libjpeg may fail.
  template <typename Work>
  absl::Status Guarded(const Work& work) {
    if (setjmp(error_.jump) != 0) return absl::DataLossError(error_.message);
    work();
    return absl::OkStatus();
  }

  static int64_t Reduction(const PixelBox& part, const ImageSize& least) {
    for (const int64_t reduction : {8, 4, 2}) {
      if (part.width() >= reduction * least.width && part.height() >= reduction * least.height)
        return reduction;
    }
    return 1;
  }

  // Leaves out the columns that the part does not need, as far as whole blocks, and returns what
  // will be decoded.
  PixelBox Crop(const PixelBox& part, int64_t reduction) {
    const int64_t full_width = info_.output_width;
    const int64_t full_height = info_.output_height;
    const int64_t left = std::max<int64_t>(0, part.left / reduction - kMargin);
    const int64_t right = std::min(full_width, (part.right + reduction - 1) / reduction + kMargin);
    auto first = static_cast<JDIMENSION>(left);
    auto width = static_cast<JDIMENSION>(right - left);
    if (width < info_.output_width) jpeg_crop_scanline(&info_, &first, &width);
    return {.left = first,
            .top = part.top / reduction,
            .right = int64_t{first} + width,
            .bottom = std::min(full_height, (part.bottom + reduction - 1) / reduction)};
  }

  void ReadRows(DecodedPart& decoded) {
    if (decoded.box.top > 0) jpeg_skip_scanlines(&info_, static_cast<JDIMENSION>(decoded.box.top));
    const int64_t row_bytes = decoded.box.width() * 4;
    for (int64_t row = 0; row < decoded.box.height();) {
      JSAMPROW to = decoded.pixels.data() + row * row_bytes;
      row += jpeg_read_scanlines(&info_, &to, 1);
    }
    jpeg_abort_decompress(&info_);
  }

  // Converts inverted values, as Pillow's are: red is C * K / 255.
  static void ConvertCmyk(DecodedPart& decoded) {
    for (size_t i = 0; i < decoded.pixels.size(); i += 4) {
      for (size_t c = 0; c < 3; ++c) {
        const int product = decoded.pixels[i + c] * decoded.pixels[i + 3];
        decoded.pixels[i + c] = static_cast<uint8_t>((product + 127) / 255);
      }
    }
  }

  jpeg_decompress_struct info_ = {};
  jpeg_progress_mgr progress_ = {};
  ErrorState error_ = {};
};

}  // namespace

absl::StatusOr<std::unique_ptr<ImageDecoder>> OpenJpeg(absl::Span<const uint8_t> bytes) {
  auto decoder = std::make_unique<JpegDecoder>();
  RETURN_IF_ERROR(decoder->ReadHeader(bytes));
  return decoder;
}

absl::Status CheckImageLibraries() { return absl::OkStatus(); }

}  // namespace neap
