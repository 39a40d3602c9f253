#include "neap/core/vision/image_folder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/file.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/vision/image.h"
#include "neap/core/vision/image/random_view.h"
#include "neap/core/vision/image_files.h"

namespace neap {
namespace {

constexpr ImageShape kImageNetShape = {.c = 3, .h = 224, .w = 224};
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

}  // namespace

absl::StatusOr<std::vector<std::string>> ImageClassesOf(const std::string& directory) {
  ASSIGN_OR_RETURN(const std::string folder, SplitFolder(directory, Split::kTrain));
  std::vector<std::string> ignored;
  return ClassFolders(folder, ignored);
}

absl::StatusOr<std::unique_ptr<ImageFolder>> ImageFolder::Create(
    const std::string& directory, const ImageFolderOptions& options) {
  RETURN_IF_ERROR(CheckImageLibraries());
  const ImageShape shape = options.shape.value_or(kImageNetShape);
  if ((shape.c == 1 || shape.c == 3) && shape.h >= 1 && shape.w >= 1)
    return std::unique_ptr<ImageFolder>(new ImageFolder(directory, shape, options));
  return absl::InvalidArgumentError(
      absl::StrCat(directory, ": cannot make images of ", ToString(shape), " from photographs"));
}

absl::StatusOr<std::unique_ptr<ImageFolder>> ImageFolder::Open(const std::string& directory,
                                                               const ImageFolderOptions& options) {
  ASSIGN_OR_RETURN(const std::string root, SplitFolder(directory, options.split));
  ASSIGN_OR_RETURN(std::unique_ptr<ImageFolder> folder, Create(root, options));
  if (root != directory) {
    folder->notices_.push_back(
        absl::StrCat(directory, " has a folder for each split, of which ", root, " is read"));
  }
  ASSIGN_OR_RETURN(folder->class_names_, ClassFolders(root, folder->notices_));
  for (const std::string& name : folder->class_names_) {
    RETURN_IF_ERROR(folder->AddClass(absl::StrCat(root, "/", name), options.allow_empty_classes));
  }
  if (folder->size() > 0) return folder;
  return absl::NotFoundError(absl::StrCat(root, ": none of the classes has images"));
}

absl::Status ImageFolder::AddClass(const std::string& folder, bool may_be_empty) {
  ASSIGN_OR_RETURN(const int64_t added, AddFiles(folder));
  class_ends_.push_back(size());
  if (added > 0) return absl::OkStatus();
  notices_.push_back(absl::StrCat(folder, ": the class has no images"));
  if (may_be_empty) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat(notices_.back(), "; remove it, or allow empty classes"));
}

absl::StatusOr<std::unique_ptr<ImageFolder>> ImageFolder::OpenFiles(
    const std::vector<std::string>& paths, const ImageFolderOptions& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<ImageFolder> folder,
                   Create(paths.empty() ? "" : paths.front(), options));
  for (const std::string& path : paths) {
    std::error_code ignored;
    if (!std::filesystem::is_directory(path, ignored)) {
      RETURN_IF_ERROR(ReadableFile::Open(path).status());
      folder->paths_.push_back(path);
      continue;
    }
    ASSIGN_OR_RETURN(const int64_t added, folder->AddFiles(path));
    if (added == 0) return absl::NotFoundError(absl::StrCat(path, ": the folder has no images"));
  }
  if (folder->size() == 0) return absl::InvalidArgumentError("no images are given");
  return folder;
}

absl::StatusOr<int64_t> ImageFolder::AddFiles(const std::string& folder) {
  ASSIGN_OR_RETURN(std::vector<std::string> files, ImageFiles(folder, notices_));
  std::move(files.begin(), files.end(), std::back_inserter(paths_));
  return std::ssize(files);
}

absl::Status ImageFolder::Read(int64_t index, float* pixels, int32_t* label) const {
  return ReadGood(index, nullptr, pixels, label);
}

absl::Status ImageFolder::ReadView(int64_t index, const RandomView& view, float* pixels,
                                   int32_t* label) const {
  return ReadGood(index, &view, pixels, label);
}

absl::Status ImageFolder::ReadGood(int64_t index, const RandomView* view, float* pixels,
                                   int32_t* label) const {
  if (index < 0 || index >= size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(directory_, ": no image ", index, " among ", size()));
  }
  absl::Status status;
  for (int64_t tried = 0; tried < size(); ++tried) {
    const int64_t at = (index + tried) % size();
    status = ReadFile(at, view, pixels);
    if (status.ok()) {
      const auto end = std::upper_bound(class_ends_.begin(), class_ends_.end(), at);
      *label = class_ends_.empty() ? -1 : static_cast<int32_t>(end - class_ends_.begin());
      return status;
    }
    if (on_bad_file_ == nullptr || absl::IsResourceExhausted(status)) return status;
    on_bad_file_(status);
  }
  return absl::Status(status.code(), absl::StrCat("no image of ", directory_,
                                                  " can be read; the last: ", status.message()));
}

absl::Status ImageFolder::ReadFile(int64_t index, const RandomView* view, float* pixels) const {
  auto scratch = std::make_unique<Scratch>();
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      scratch = std::move(free_.back());
      free_.pop_back();
    }
  }
  const absl::Status status = ReadWith(*scratch, index, view, pixels);
  if (scratch->file.capacity() + scratch->decoded.pixels.capacity() <= kMaxKeptBytes) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(scratch));
  }
  return status;
}

absl::Status ImageFolder::ReadWith(Scratch& scratch, int64_t index, const RandomView* view,
                                   float* pixels) const {
  ASSIGN_OR_RETURN(const ReadableFile file, ReadableFile::Open(file(index)));
  if (file.size_bytes() > kMaxFileBytes) {
    return absl::DataLossError(absl::StrCat(file.path(), ": the file has ", file.size_bytes(),
                                            " bytes; at most ", kMaxFileBytes, " are read"));
  }
  const auto size = static_cast<size_t>(file.size_bytes());
  if (scratch.file.size() < size) scratch.file.resize(size);
  const absl::Span<uint8_t> bytes(scratch.file.data(), size);
  RETURN_IF_ERROR(file.ReadAt(0, {reinterpret_cast<std::byte*>(bytes.data()), bytes.size()}));
  absl::StatusOr<std::unique_ptr<ImageDecoder>> decoder = OpenImage(bytes);
  const Orientation turned = apply_orientation_ ? ReadOrientation(bytes) : Orientation();
  const absl::Status status = decoder.ok()
                                  ? Decode(**decoder, turned, view, scratch.decoded, pixels)
                                  : std::move(decoder).status();
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(file.path(), ": ", status.message()));
}

absl::Status ImageFolder::Decode(ImageDecoder& decoder, const Orientation& turned,
                                 const RandomView* view, DecodedPart& decoded,
                                 float* pixels) const {
  const ImageSize size = decoder.size();
  const ImageSize upright = turned.transposed ? ImageSize{size.height, size.width} : size;
  Crop crop = view == nullptr ? CentralCrop(upright, shape_) : RandomCrop(*view, upright, shape_);
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

void ImageFolder::Convert(const DecodedPart& decoded, const Taps& rows, const Taps& columns,
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
