#include "neap/core/vision/photo_reader.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/file.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/vision/image.h"
#include "neap/core/vision/image/random_view.h"

namespace neap {
namespace {

constexpr std::array<float, 3> kMean = {0.485F, 0.456F, 0.406F};
constexpr std::array<float, 3> kDeviation = {0.229F, 0.224F, 0.225F};

// In evaluation, the crop is this part of the resized image, along both axes.
constexpr double kCentralPart = 224.0 / 256;

// The memory that each thread keeps for its next image. Hardly any photograph takes more.
constexpr size_t kMaxKeptBytes = size_t{1} << 24;

// The part of an image that is needed, and the place of each pixel of the result in it.
struct Crop {
  PixelBox part;
  Axis rows;
  Axis columns;
};

Crop RandomCrop(const RandomView& view, const ImageSize& image, const ImageShape& shape) {
  const PixelBox box = DrawCrop(view, image);
  const auto axis = [](int64_t begin, int64_t end, int64_t outputs) {
    return Axis{.begin = static_cast<double>(begin),
                .extent = static_cast<double>(end - begin),
                .outputs = outputs,
                .clip_begin = begin,
                .clip_end = end};
  };
  Crop crop = {.part = box,
               .rows = axis(box.top, box.bottom, shape.h),
               .columns = axis(box.left, box.right, shape.w)};
  crop.columns.mirrored = DrawMirror(view);
  return crop;
}

// One axis of a central crop: `extent` pixels of the image become `resized`, of which `outputs` in
// the middle are taken.
Axis CentralAxis(int64_t extent, int64_t resized, int64_t outputs) {
  const double step = static_cast<double>(extent) / static_cast<double>(resized);
  const double skipped = std::nearbyint(static_cast<double>(resized - outputs) / 2);
  return {.begin = skipped * step,
          .extent = static_cast<double>(outputs) * step,
          .outputs = outputs,
          .clip_end = extent};
}

// The image is resized so that it just covers the result and a margin around it. The part is what
// the axes need, in the end.
Crop CentralCrop(const ImageSize& image, const ImageShape& shape) {
  const int64_t least_width = std::llround(static_cast<double>(shape.w) / kCentralPart);
  const int64_t least_height = std::llround(static_cast<double>(shape.h) / kCentralPart);
  ImageSize resized = {least_width, least_height};
  if (image.width * least_height > least_width * image.height) {
    resized.width = image.width * least_height / image.height;
  } else {
    resized.height = image.height * least_width / image.width;
  }
  return {.rows = CentralAxis(image.height, resized.height, shape.h),
          .columns = CentralAxis(image.width, resized.width, shape.w)};
}

Crop WholeImage(const ImageSize& image, const ImageShape& shape) {
  const auto axis = [](int64_t extent, int64_t outputs) {
    return Axis{.extent = static_cast<double>(extent), .outputs = outputs, .clip_end = extent};
  };
  return {.rows = axis(image.height, shape.h), .columns = axis(image.width, shape.w)};
}

// The axis in an image that is decoded with fewer pixels.
Axis Reduced(Axis axis, int64_t reduction) {
  axis.begin /= static_cast<double>(reduction);
  axis.extent /= static_cast<double>(reduction);
  axis.clip_begin /= reduction;
  axis.clip_end = (axis.clip_end + reduction - 1) / reduction;
  return axis;
}

PixelBox NeededBy(const Crop& crop) {
  const Taps rows(crop.rows);
  const Taps columns(crop.columns);
  return {columns.begin(), rows.begin(), columns.end(), rows.end()};
}

// The axis from its other end, in an image of `extent` pixels.
Axis Reversed(Axis axis, int64_t extent) {
  axis.begin = static_cast<double>(extent) - axis.begin - axis.extent;
  axis.mirrored = !axis.mirrored;
  const int64_t clip_begin = axis.clip_begin;
  axis.clip_begin = extent - axis.clip_end;
  axis.clip_end = extent - clip_begin;
  return axis;
}

// The crop of the upright image, in the pixels that the file has: `size` is theirs. If it is
// transposed, its rows are the columns of the result.
Crop AsStored(Crop crop, const Orientation& turned, const ImageSize& size) {
  if (turned.transposed) {
    std::swap(crop.rows, crop.columns);
    crop.part = {crop.part.top, crop.part.left, crop.part.bottom, crop.part.right};
  }
  if (turned.columns_reversed) {
    crop.columns = Reversed(crop.columns, size.width);
    crop.part = {size.width - crop.part.right, crop.part.top, size.width - crop.part.left,
                 crop.part.bottom};
  }
  if (turned.rows_reversed) {
    crop.rows = Reversed(crop.rows, size.height);
    crop.part = {crop.part.left, size.height - crop.part.bottom, crop.part.right,
                 size.height - crop.part.top};
  }
  return crop;
}

// `from`: planes of `columns` rows; `to`: of `rows` rows.
void Transpose(const std::vector<float>& from, int64_t planes, int64_t rows, int64_t columns,
               float* to) {
  for (int64_t plane = 0; plane < planes; ++plane) {
    const float* const source = from.data() + plane * rows * columns;
    for (int64_t y = 0; y < rows; ++y) {
      for (int64_t x = 0; x < columns; ++x) *to++ = source[x * rows + y];
    }
  }
}

ByteScale Normalisation() {
  ByteScale scale = {};
  for (size_t c = 0; c < 3; ++c) {
    scale.factor[c] = 1 / (255 * kDeviation[c]);
    scale.shift[c] = kMean[c] / kDeviation[c];
  }
  return scale;
}

ImageSize UprightSize(const ImageSize& size, const Orientation& turned) {
  return turned.transposed ? ImageSize{size.height, size.width} : size;
}

}  // namespace

absl::Status CheckPhotoShape(const std::string& directory, const ImageShape& shape) {
  if ((shape.c == 1 || shape.c == 3) && shape.h >= 1 && shape.w >= 1 && shape.d == 1)
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(directory, ": cannot make images of ", ToString(shape), " from photographs"));
}

absl::StatusOr<absl::Span<const uint8_t>> ReadImageFile(const std::string& path,
                                                        std::vector<uint8_t>& memory) {
  ASSIGN_OR_RETURN(const ReadableFile file, ReadableFile::Open(path));
  if (file.size_bytes() > kMaxFileBytes) {
    return absl::DataLossError(absl::StrCat(path, ": the file has ", file.size_bytes(),
                                            " bytes; at most ", kMaxFileBytes, " are read"));
  }
  const auto size = static_cast<size_t>(file.size_bytes());
  if (memory.size() < size) memory.resize(size);
  const absl::Span<uint8_t> bytes(memory.data(), size);
  RETURN_IF_ERROR(file.ReadAt(0, {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()}));
  return bytes;
}

absl::StatusOr<ImageSize> PhotoReader::Read(const std::string& path, const RandomView* view,
                                            float* pixels) const {
  auto scratch = std::make_unique<Scratch>();
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      scratch = std::move(free_.back());
      free_.pop_back();
    }
  }
  absl::StatusOr<ImageSize> size = ReadWith(*scratch, path, view, pixels);
  if (scratch->file.capacity() + scratch->decoded.pixels.capacity() <= kMaxKeptBytes) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(scratch));
  }
  return size;
}

absl::StatusOr<ImageSize> PhotoReader::ReadWith(Scratch& scratch, const std::string& path,
                                                const RandomView* view, float* pixels) const {
  ASSIGN_OR_RETURN(const absl::Span<const uint8_t> bytes, ReadImageFile(path, scratch.file));
  absl::StatusOr<std::unique_ptr<ImageDecoder>> decoder = OpenImage(bytes);
  const Orientation turned = apply_orientation_ ? ReadOrientation(bytes) : Orientation();
  const absl::Status status =
      decoder.ok() ? Decode(**decoder, turned, view, scratch.decoded, pixels) : decoder.status();
  if (!status.ok()) return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
  return UprightSize((*decoder)->size(), turned);
}

absl::Status PhotoReader::Decode(ImageDecoder& decoder, const Orientation& turned,
                                 const RandomView* view, DecodedPart& decoded,
                                 float* pixels) const {
  const ImageSize size = decoder.size();
  const ImageSize upright = UprightSize(size, turned);
  Crop crop = view != nullptr                     ? RandomCrop(*view, upright, shape_)
              : framing_ == Framing::kCentralPart ? CentralCrop(upright, shape_)
                                                  : WholeImage(upright, shape_);
  crop = AsStored(crop, turned, size);
  if (view == nullptr) crop.part = NeededBy(crop);
  RETURN_IF_ERROR(decoder.Decode(crop.part, {crop.columns.outputs, crop.rows.outputs}, decoded));
  const Taps rows(Reduced(crop.rows, decoded.reduction));
  const Taps columns(Reduced(crop.columns, decoded.reduction));
  if (!turned.transposed) {
    Convert(decoded, rows, columns, view, pixels);
    return absl::OkStatus();
  }
  std::vector<float> stored(static_cast<size_t>(shape_.elements()));
  Convert(decoded, rows, columns, view, stored.data());
  Transpose(stored, shape_.c, shape_.h, shape_.w, pixels);
  return absl::OkStatus();
}

void PhotoReader::Convert(const DecodedPart& decoded, const Taps& rows, const Taps& columns,
                          const RandomView* view, float* pixels) const {
  const ByteScale normal = Normalisation();
  const bool recolors = view != nullptr && view->color_jitter > 0;
  const int64_t plane = shape_.h * shape_.w;
  std::vector<float> colors;  // of an image that becomes grey
  if (shape_.c == 1) colors.resize(static_cast<size_t>(3 * plane));
  float* const planes = shape_.c == 1 ? colors.data() : pixels;
  if (recolors) {
    constexpr float kUnit = 1.0F / 255;
    Resample(decoded, rows, columns, {{kUnit, kUnit, kUnit}, {0, 0, 0}}, planes);
    ChangeColors(DrawColors(*view), plane, planes);
    for (size_t c = 0; c < 3; ++c) {
      float* const values = planes + static_cast<int64_t>(c) * plane;
      const float factor = 255 * normal.factor[c];
      for (int64_t i = 0; i < plane; ++i) values[i] = values[i] * factor - normal.shift[c];
    }
  } else {
    Resample(decoded, rows, columns, normal, planes);
  }
  if (shape_.c == 3) return;
  for (int64_t i = 0; i < plane; ++i) {
    pixels[i] =
        kLuma[0] * planes[i] + kLuma[1] * planes[plane + i] + kLuma[2] * planes[2 * plane + i];
  }
}

}  // namespace neap
