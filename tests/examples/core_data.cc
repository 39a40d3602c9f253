// The examples in the headers of core/data/, of core/base/random_index.h and of the readers of
// images and masks, which must compile. See scripts/check_examples.py.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/base/philox.h"
#include "neap/core/base/random_index.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/data/confusion.h"
#include "neap/core/data/labelled_files.h"
#include "neap/core/data/nifti.h"
#include "neap/core/data/npy.h"
#include "neap/core/data/token_windows.h"
#include "neap/core/data/volume.h"
#include "neap/core/data/volume_folder.h"
#include "neap/core/vision/mask_folder.h"
#include "neap/core/vision/photo_reader.h"

namespace neap::header_examples::data {

// core/base/random_index.h
int64_t Choose(uint64_t seed, uint64_t i) {
  const PhiloxBlock r = Philox({.key = seed, .position = i});
  const int64_t chosen = RandomIndex(r[0], r[1], /*count=*/10);  // from 0 to 9
  return chosen;
}

// core/data/confusion.h
void Score(const std::vector<float>& logits, const std::vector<int32_t>& labels) {
  Confusion confusion(/*classes=*/3);
  confusion.Add(logits, labels, /*images=*/2);  // N, C, ... and N, ...
  confusion.MeanIou();
}

// core/data/labelled_files.h
absl::Status FindPairs() {
  ASSIGN_OR_RETURN(const LabelledFiles found,
                   FindLabelledFiles("DIR", Split::kTrain, {{".jpg", ".png"}, {".png"}}));
  const std::string& first = found.files[0].examples[0];  // DIR/train/images/7.jpg
  return absl::OkStatus();
}

// core/data/npy.h
absl::Status ReadArray() {
  ASSIGN_OR_RETURN(const NpyFile file, NpyFile::Open("ct.npy"));
  file.extents();  // {64, 128, 128}
  ASSIGN_OR_RETURN(const std::vector<float> values, file.ReadFloats());
  return absl::OkStatus();
}

// core/data/nifti.h
absl::Status ReadOneScan() {
  ASSIGN_OR_RETURN(const Volume scan, ReadNifti("scan.nii.gz"));
  return absl::OkStatus();
}

// core/data/volume.h
absl::Status ReadScan() {
  ASSIGN_OR_RETURN(Volume scan, ReadVolume({"flair.nii.gz", "t1.nii.gz"}));  // of two channels
  NormaliseVolume(scan);
  ASSIGN_OR_RETURN(const VolumeLabels truth, ReadVolumeLabels("truth.nii.gz", /*classes=*/4));
  return absl::OkStatus();
}

// core/data/volume_folder.h
absl::Status OpenScans() {
  ASSIGN_OR_RETURN(std::unique_ptr<VolumeFolder> scans,
                   VolumeFolder::Open("DIR", {.shape = {{.c = 1, .h = 96, .w = 96, .d = 32}}}));
  scans->extents();  // {1, 32, 96, 96}
  return absl::OkStatus();
}

// core/data/token_windows.h
absl::Status ReadWindow() {
  ASSIGN_OR_RETURN(std::unique_ptr<TokenWindows> text, TokenWindows::Open("DIR", {.tokens = 256}));
  std::vector<int32_t> tokens(256), labels(256);
  RETURN_IF_ERROR(text->ReadTokens(0, /*view=*/nullptr, tokens.data(), labels.data()));
  return absl::OkStatus();
}

// core/vision/mask_folder.h
absl::Status OpenMasks() {
  ASSIGN_OR_RETURN(std::unique_ptr<MaskFolder> streets,
                   MaskFolder::Open("camvid", {.shape = {{3, 360, 480}}, .classes = 12}));
  streets->labels();  // 360 x 480
  return absl::OkStatus();
}

// core/vision/photo_reader.h
absl::Status ReadPhoto(float* pixels) {
  const PhotoReader reader({3, 224, 224}, Framing::kCentralPart, /*apply_orientation=*/false);
  ASSIGN_OR_RETURN(const ImageSize size, reader.Read("cat.jpg", /*view=*/nullptr, pixels));
  return absl::OkStatus();
}

}  // namespace neap::header_examples::data
