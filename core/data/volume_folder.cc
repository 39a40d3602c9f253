#include "neap/core/data/volume_folder.h"

#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/data/dataset_json.h"
#include "neap/core/data/label_classes.h"
#include "neap/core/data/patch.h"

namespace neap {
namespace {

constexpr int64_t kDefaultExtent = 64;

}  // namespace

int64_t VolumeFolder::Case::size_bytes() const {
  return static_cast<int64_t>(volume.values.size() * sizeof(float) + labels.labels.size());
}

absl::StatusOr<std::unique_ptr<VolumeFolder>> VolumeFolder::Open(
    const std::string& directory, const VolumeFolderOptions& options) {
  if (!(options.foreground >= 0 && options.foreground <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a share of ", options.foreground, " of patches around foreground"));
  }
  const std::vector<std::string> suffixes = VolumeSuffixes();
  ASSIGN_OR_RETURN(LabelledFiles found,
                   FindLabelledFiles(directory, options.split, {suffixes, suffixes}));
  std::unique_ptr<VolumeFolder> folder(new VolumeFolder(options));
  folder->files_ = std::move(found.files);
  folder->notices_ = std::move(found.notices);
  folder->kept_.resize(folder->files_.size());
  folder->ignored_ = options.ignored;
  if (!options.ignored.has_value()) {
    ASSIGN_OR_RETURN(folder->ignored_, IgnoredLabel(directory));
  }
  RETURN_IF_ERROR(folder->FindClasses(directory, options.classes));
  RETURN_IF_ERROR(folder->FindShape(options.shape));
  return folder;
}

absl::Status VolumeFolder::FindClasses(const std::string& directory, std::optional<int64_t> given) {
  ASSIGN_OR_RETURN(class_names_, NamesOfClasses(directory));
  const auto largest_in = [&](int64_t i) -> absl::StatusOr<int32_t> {
    const std::string& path = files_[static_cast<size_t>(i)].labels;
    ASSIGN_OR_RETURN(const VolumeForm form, ReadVolumeForm(path));
    const ByteGate::Pass pass = reading_.Enter(form.reading_bytes());
    ASSIGN_OR_RETURN(const VolumeLabels read, ReadVolumeLabels(path, kIgnoredClass, ignored_));
    return LargestClass(read.labels);
  };
  ASSIGN_OR_RETURN(classes_, ClassesOfLabels(directory, class_names_, given, size(), largest_in));
  return absl::OkStatus();
}

absl::Status VolumeFolder::FindShape(std::optional<ImageShape> given) {
  shape_ = given.value_or(ImageShape{0, kDefaultExtent, kDefaultExtent, kDefaultExtent});
  if (given.has_value() && (shape_.c < 1 || shape_.d < 1 || shape_.h < 1 || shape_.w < 1))
    return absl::InvalidArgumentError(absl::StrCat("no patches of ", ToString(shape_)));
  if (!given.has_value()) {
    for (const std::string& path : files_.front().examples) {
      ASSIGN_OR_RETURN(const VolumeForm form, ReadVolumeForm(path));
      shape_.c += form.shape.c;
    }
  }
  return CaseAt(0).status();
}

absl::Status VolumeFolder::Read(int64_t index, float* voxels, int32_t* labels) const {
  return ReadPatch(index, nullptr, voxels, labels);
}

absl::Status VolumeFolder::ReadView(int64_t index, const RandomView& view, float* voxels,
                                    int32_t* labels) const {
  return ReadPatch(index, &view, voxels, labels);
}

absl::Status VolumeFolder::ReadPatch(int64_t index, const RandomView* view, float* voxels,
                                     int32_t* labels) const {
  if (index < 0 || index >= size())
    return absl::InvalidArgumentError(absl::StrCat("no volume ", index, " among ", size()));
  ASSIGN_OR_RETURN(const std::shared_ptr<const Case> read, CaseAt(index));
  const Patch patch = view == nullptr
                          ? CentralPatch(read->volume.shape, shape_)
                          : DrawPatch(*view, foreground_, read->labels, read->counts, shape_);
  CutPatch(read->volume, read->labels, patch, shape_, voxels, labels);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const VolumeFolder::Case>> VolumeFolder::CaseAt(
    int64_t index) const {
  const auto at = static_cast<size_t>(index);
  {
    const std::lock_guard lock(mutex_);
    if (kept_[at] != nullptr) return kept_[at];
  }
  ASSIGN_OR_RETURN(std::shared_ptr<Case> read, ReadCase(files_[at]));
  const std::lock_guard lock(mutex_);
  if (kept_[at] == nullptr && read->size_bytes() <= left_bytes_) {
    left_bytes_ -= read->size_bytes();
    read->pass.reset();
    kept_[at] = read;
  }
  return std::shared_ptr<const Case>(std::move(read));
}

absl::StatusOr<std::shared_ptr<VolumeFolder::Case>> VolumeFolder::ReadCase(
    const LabelledFile& file) const {
  ASSIGN_OR_RETURN(const VolumeForm of_labels, ReadVolumeForm(file.labels));
  int64_t bytes = of_labels.reading_bytes();
  for (const std::string& example : file.examples) {
    ASSIGN_OR_RETURN(const VolumeForm form, ReadVolumeForm(example));
    bytes += form.reading_bytes();
  }
  auto read = std::make_shared<Case>();
  read->pass.emplace(reading_.Enter(bytes));
  ASSIGN_OR_RETURN(read->volume, ReadVolume(file.examples));
  ASSIGN_OR_RETURN(read->labels, ReadVolumeLabels(file.labels, classes_, ignored_));
  const std::string& path = file.examples.front();
  ImageShape expected = read->labels.shape;
  expected.c = shape_.c;
  if (read->volume.shape.c != shape_.c) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the volume has ", read->volume.shape.c, " channels, not ", shape_.c));
  }
  if (read->volume.shape != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the volume is ", ToString(read->volume.shape), ", its labels in ",
                     file.labels, " are ", ToString(read->labels.shape)));
  }
  NormaliseVolume(read->volume);
  read->counts = CountClasses(read->labels, classes_);
  return read;
}

}  // namespace neap
