#include "neap/core/vision/dataset.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/data/synthetic_tokens.h"
#include "neap/core/data/token_windows.h"
#include "neap/core/data/volume_folder.h"
#include "neap/core/vision/cifar.h"
#include "neap/core/vision/idx.h"
#include "neap/core/vision/image_folder.h"
#include "neap/core/vision/mask_folder.h"
#include "neap/core/vision/synthetic.h"

namespace neap {
namespace {

constexpr ImageShape kSyntheticShape = {.c = 3, .h = 32, .w = 32};
constexpr int64_t kSyntheticClasses = 10;

template <typename T>
absl::StatusOr<std::unique_ptr<Dataset>> AsDataset(absl::StatusOr<std::unique_ptr<T>> dataset) {
  if (!dataset.ok()) return dataset.status();
  return std::unique_ptr<Dataset>(*std::move(dataset));
}

int64_t SyntheticSize(const DatasetOptions& options) {
  if (options.size != 0) return options.size;
  return options.split == Split::kTrain ? 50'000 : 10'000;
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenSynthetic(const DatasetOptions& options) {
  if (options.tokens) {
    SyntheticTokensOptions sequences = {
        .split = options.split, .size = SyntheticSize(options), .seed = options.seed};
    if (options.shape.has_value()) sequences.tokens = options.shape->w;
    sequences.classes = options.classes.value_or(sequences.classes);
    return AsDataset(SyntheticTokens::Create(sequences));
  }
  return AsDataset(SyntheticDataset::Create({.split = options.split,
                                             .shape = options.shape.value_or(kSyntheticShape),
                                             .classes = options.classes.value_or(kSyntheticClasses),
                                             .size = SyntheticSize(options),
                                             .label_pixels = options.label_pixels,
                                             .seed = options.seed}));
}

// The datasets of images with a label each. Null for another format.
absl::StatusOr<std::unique_ptr<Dataset>> OpenLabelledImages(std::string_view format,
                                                            const std::string& directory,
                                                            const DatasetOptions& options) {
  if (format == "idx") return AsDataset(IdxDataset::Open(directory, options.split, options.shape));
  if (format == "cifar10" || format == "cifar100") {
    const CifarKind kind = format == "cifar10" ? CifarKind::k10 : CifarKind::k100;
    return AsDataset(CifarDataset::Open(directory, kind, options.split, options.shape));
  }
  if (format != "imagefolder") return nullptr;
  return AsDataset(ImageFolder::Open(directory, {.shape = options.shape,
                                                 .split = options.split,
                                                 .on_bad_file = options.on_bad_file,
                                                 .allow_empty_classes = options.allow_empty_classes,
                                                 .apply_orientation = options.apply_orientation}));
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenTokenWindows(std::string_view format,
                                                          const std::string& directory,
                                                          const DatasetOptions& options) {
  TokenWindowsOptions windows = {
      .split = options.split,
      .type = format == "tokens" ? TokenType::kUInt16 : TokenType::kUInt32,
      .classes = options.classes};
  if (options.shape.has_value()) windows.tokens = options.shape->w;
  return AsDataset(TokenWindows::Open(directory, windows));
}

// The datasets with many labels for each example. Null for another format.
absl::StatusOr<std::unique_ptr<Dataset>> OpenLabelledPositions(std::string_view format,
                                                               const std::string& directory,
                                                               const DatasetOptions& options) {
  if (format == "masks") {
    if (options.apply_orientation) {
      return absl::InvalidArgumentError(absl::StrCat(
          "masks:", directory,
          " has images that cannot be turned as their EXIF data says, because their masks are not; "
          "only those of an imagefolder can be"));
    }
    return AsDataset(MaskFolder::Open(
        directory, {.shape = options.shape, .split = options.split, .classes = options.classes}));
  }
  if (format == "volumes") {
    return AsDataset(VolumeFolder::Open(directory, {.shape = options.shape,
                                                    .split = options.split,
                                                    .foreground = options.foreground,
                                                    .classes = options.classes}));
  }
  if (format == "tokens" || format == "tokens32")
    return OpenTokenWindows(format, directory, options);
  return nullptr;
}

}  // namespace

std::string ToString(const ImageShape& shape) {
  return absl::StrCat(shape.c, shape.d == 1 ? "" : absl::StrCat("x", shape.d), "x", shape.h, "x",
                      shape.w);
}

absl::StatusOr<Split> ParseSplit(std::string_view text) {
  if (text == "train") return Split::kTrain;
  if (text == "test") return Split::kTest;
  if (text == "val") return Split::kValidation;
  return absl::InvalidArgumentError(absl::StrCat("split: '", std::string(text.substr(0, 64)),
                                                 "' is none of 'train', 'test' and 'val'"));
}

absl::Status Dataset::ReadView(int64_t /*index*/, const RandomView& /*view*/, float* /*pixels*/,
                               int32_t* /*labels*/) const {
  return absl::UnimplementedError("this dataset has no random crops");
}

absl::Status Dataset::ReadTokens(int64_t /*index*/, const RandomView* /*view*/, int32_t* /*tokens*/,
                                 int32_t* /*labels*/) const {
  return absl::UnimplementedError("this dataset has no tokens");
}

std::string DatasetSpec(const std::string& text) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (text == "synthetic" || !fs::is_directory(text, ignored)) return text;
  for (const auto& [format, file] : {std::pair("idx", "train-images-idx3-ubyte"),
                                     {"idx", "train-images-idx3-ubyte.gz"},
                                     {"cifar10", "data_batch_1.bin"},
                                     {"cifar100", "train.bin"}}) {
    if (fs::exists(fs::path(text) / file, ignored)) return absl::StrCat(format, ":", text);
  }
  return absl::StrCat("imagefolder:", text);
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenDataset(std::string_view given,
                                                     const DatasetOptions& options) {
  const std::string known = DatasetSpec(std::string(given));
  const std::string_view spec = known;
  const size_t colon = spec.find(':');
  const std::string_view format = spec.substr(0, colon);
  const std::string directory(colon == std::string_view::npos ? "" : spec.substr(colon + 1));
  if (spec == "synthetic") return OpenSynthetic(options);
  std::unique_ptr<Dataset> dataset;
  if (!directory.empty()) {
    ASSIGN_OR_RETURN(dataset, OpenLabelledPositions(format, directory, options));
    if (dataset != nullptr) return dataset;
  }
  if (options.label_pixels) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "'%s' has no labels for pixels or voxels, which the network needs; masks:DIR has those of "
        "pixels, volumes:DIR those of voxels, and synthetic both",
        spec));
  }
  if (!directory.empty()) {
    ASSIGN_OR_RETURN(dataset, OpenLabelledImages(format, directory, options));
    if (dataset != nullptr) return dataset;
  }
  return absl::InvalidArgumentError(
      absl::StrFormat("no dataset '%s'; there are imagefolder:DIR, masks:DIR, volumes:DIR, "
                      "tokens:DIR, tokens32:DIR, idx:DIR, cifar10:DIR, cifar100:DIR and synthetic",
                      spec));
}

}  // namespace neap
