#include "neap/core/vision/image_folder.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/file.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/vision/image_files.h"

namespace neap {

absl::StatusOr<std::vector<std::string>> ImageClassesOf(const std::string& directory) {
  ASSIGN_OR_RETURN(const std::string folder, SplitFolder(directory, Split::kTrain));
  std::vector<std::string> ignored;
  return ClassFolders(folder, ignored);
}

absl::StatusOr<std::unique_ptr<ImageFolder>> ImageFolder::Create(
    const std::string& directory, const ImageFolderOptions& options) {
  RETURN_IF_ERROR(CheckImageLibraries());
  const ImageShape shape = options.shape.value_or(kPhotoShape);
  RETURN_IF_ERROR(CheckPhotoShape(directory, shape));
  return std::unique_ptr<ImageFolder>(new ImageFolder(directory, shape, options));
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
    status = reader_.Read(paths_[static_cast<size_t>(at)], view, pixels).status();
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

}  // namespace neap
