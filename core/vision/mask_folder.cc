#include "neap/core/vision/mask_folder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/data/label_classes.h"
#include "neap/core/program/feeds.h"
#include "neap/core/vision/image/random_view.h"

namespace neap {
namespace {

absl::StatusOr<IndexedImage> ReadMask(const std::string& path) {
  std::vector<uint8_t> memory;
  ASSIGN_OR_RETURN(const absl::Span<const uint8_t> bytes, ReadImageFile(path, memory));
  absl::StatusOr<IndexedImage> mask = DecodeIndices(bytes);
  if (mask.ok()) return mask;
  return absl::Status(mask.status().code(), absl::StrCat(path, ": ", mask.status().message()));
}

absl::StatusOr<int32_t> LargestClassIn(const std::string& path) {
  ASSIGN_OR_RETURN(const IndexedImage mask, ReadMask(path));
  return LargestClass(mask.indices);
}

// The pixel of [begin, end) that is nearest to the middle of output i of `outputs`.
int64_t NearestPixel(int64_t i, int64_t outputs, int64_t begin, int64_t end) {
  return begin + (2 * i + 1) * (end - begin) / (2 * outputs);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MaskFolder>> MaskFolder::Open(const std::string& directory,
                                                             const MaskFolderOptions& options) {
  RETURN_IF_ERROR(CheckImageLibraries());
  const ImageShape shape = options.shape.value_or(kPhotoShape);
  RETURN_IF_ERROR(CheckPhotoShape(directory, shape));
  ASSIGN_OR_RETURN(LabelledFiles found, FindLabelledFiles(directory, options.split,
                                                          {{".jpg", ".jpeg", ".png"}, {".png"}}));
  std::unique_ptr<MaskFolder> folder(new MaskFolder(shape, std::move(found)));
  ASSIGN_OR_RETURN(folder->class_names_, NamesOfClasses(directory));
  ASSIGN_OR_RETURN(
      folder->classes_,
      ClassesOfLabels(directory, folder->class_names_, options.classes, folder->size(),
                      [&](int64_t i) {
                        return LargestClassIn(folder->files_[static_cast<size_t>(i)].labels);
                      }));
  return folder;
}

absl::Status MaskFolder::Read(int64_t index, float* pixels, int32_t* labels) const {
  return ReadPair(index, nullptr, pixels, labels);
}

absl::Status MaskFolder::ReadView(int64_t index, const RandomView& view, float* pixels,
                                  int32_t* labels) const {
  return ReadPair(index, &view, pixels, labels);
}

absl::Status MaskFolder::ReadPair(int64_t index, const RandomView* view, float* pixels,
                                  int32_t* labels) const {
  if (index < 0 || index >= size())
    return absl::InvalidArgumentError(absl::StrCat("no image ", index, " among ", size()));
  const LabelledFile& files = files_[static_cast<size_t>(index)];
  ASSIGN_OR_RETURN(const ImageSize size, reader_.Read(files.examples.front(), view, pixels));
  ASSIGN_OR_RETURN(const IndexedImage mask, ReadMask(files.labels));
  if (mask.size != size) {
    return absl::DataLossError(absl::StrCat(
        files.labels, ": the mask has ", mask.size.width, " x ", mask.size.height,
        " pixels, its image ", files.examples.front(), " ", size.width, " x ", size.height));
  }
  const PixelBox whole = {.right = size.width, .bottom = size.height};
  const PixelBox box = view == nullptr ? whole : DrawCrop(*view, size);
  const bool mirrored = view != nullptr && DrawMirror(*view);
  const ImageShape to = shape();
  for (int64_t y = 0; y < to.h; ++y) {
    const int64_t row = NearestPixel(y, to.h, box.top, box.bottom);
    for (int64_t x = 0; x < to.w; ++x) {
      const int64_t output = mirrored ? to.w - 1 - x : x;
      const int64_t column = NearestPixel(output, to.w, box.left, box.right);
      const int32_t label = mask.indices[static_cast<size_t>(row * size.width + column)];
      if (label >= classes_ && label != kIgnoredClass) {
        return absl::DataLossError(absl::StrCat(files.labels, ": row ", row, ", column ", column,
                                                ": label ", label, " of ", classes_, " classes"));
      }
      *labels++ = label == kIgnoredClass ? kNoLabel : label;
    }
  }
  return absl::OkStatus();
}

}  // namespace neap
