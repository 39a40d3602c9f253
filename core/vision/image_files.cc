#include "neap/core/vision/image_files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 3> kRead = {".jpg", ".jpeg", ".png"};
constexpr std::array<const char*, 6> kNotRead = {".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"};

constexpr std::array<const char*, 1> kTrainNames = {"train"};
constexpr std::array<const char*, 3> kValidationNames = {"val", "valid", "validation"};
constexpr std::array<const char*, 1> kTestNames = {"test"};

template <size_t size>
bool EndsWithOneOf(const std::string& name, const std::array<const char*, size>& suffixes) {
  return std::any_of(suffixes.begin(), suffixes.end(),
                     [&](const char* suffix) { return absl::EndsWithIgnoreCase(name, suffix); });
}

bool IsHidden(const std::string& name) { return name.front() == '.'; }

absl::Status SystemError(const std::string& path, const std::error_code& error) {
  const auto code =
      error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory
          ? absl::StatusCode::kNotFound
          : absl::StatusCode::kUnknown;
  return absl::Status(code, absl::StrCat(path, ": ", error.message()));
}

// The entries of a folder, but not those of folders in it. Links count as their targets.
struct Contents {
  std::vector<std::string> folders;
  std::vector<std::string> files;
};

absl::StatusOr<Contents> ContentsOf(const std::string& directory) {
  Contents contents;
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const bool is_folder = entry->is_directory(error);
    if (error == std::errc::no_such_file_or_directory) error.clear();  // a link to nothing
    if (error) break;
    (is_folder ? contents.folders : contents.files).push_back(entry->path().filename());
  }
  if (error) return SystemError(directory, error);
  std::sort(contents.folders.begin(), contents.folders.end());
  return contents;
}

// Whether the folder has folders, for classes, and no images beside them.
bool HasClasses(const std::string& directory) {
  const absl::StatusOr<Contents> contents = ContentsOf(directory);
  return contents.ok() &&
         !std::all_of(contents->folders.begin(), contents->folders.end(), IsHidden) &&
         std::none_of(contents->files.begin(), contents->files.end(), [](const std::string& name) {
           return !IsHidden(name) && EndsWithOneOf(name, kRead);
         });
}

template <size_t size>
std::optional<std::string> FolderOf(const std::string& directory,
                                    const std::array<const char*, size>& names) {
  for (const char* name : names) {
    const std::string folder = absl::StrCat(directory, "/", name);
    if (HasClasses(folder)) return folder;
  }
  return std::nullopt;
}

struct Splits {
  std::string train;
  std::string validation;
  std::string test;
};

std::optional<Splits> SplitsOf(const std::string& directory) {
  const std::optional<std::string> train = FolderOf(directory, kTrainNames);
  const std::optional<std::string> validation = FolderOf(directory, kValidationNames);
  const std::optional<std::string> test = FolderOf(directory, kTestNames);
  const std::optional<std::string>& any = validation.has_value() ? validation : test;
  if (!train.has_value() || !any.has_value()) return std::nullopt;
  return Splits{*train, *any, test.value_or(*any)};
}

template <size_t size>
bool IsOneOf(const std::string& name, const std::array<const char*, size>& names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool IsSplitName(const std::string& name) {
  return IsOneOf(name, kTrainNames) || IsOneOf(name, kValidationNames) || IsOneOf(name, kTestNames);
}

// Walks through a folder and those within it.
class Walk {
 public:
  Walk(const std::string& folder, std::vector<std::string>& notices)
      : folder_(folder), notices_(notices) {}

  absl::StatusOr<std::vector<std::string>> Files() {
    // A link to the folder that has the classes would give each class the images of all.
    above_ = {fs::path(folder_).parent_path().string(), folder_};
    std::error_code ignored;
    RETURN_IF_ERROR(Visit("", fs::is_symlink(folder_, ignored)));
    Notice(hidden_, "is hidden and left out", "are hidden and left out");
    Notice(loops_, "leads back to a folder above it and is not followed",
           "lead back to folders above them and are not followed");
    std::sort(found_.begin(), found_.end());
    std::vector<std::string> files;
    for (const auto& [within, name] : found_)
      files.push_back(absl::StrCat(folder_, "/", within, name));
    return files;
  }

 private:
  // `within`: "", "more/" or "more/and/more/".
  absl::Status Visit(const std::string& within, bool through_link) {
    const std::string directory = absl::StrCat(folder_, "/", within);
    ASSIGN_OR_RETURN(const Contents contents, ContentsOf(directory));
    for (const std::string& name : contents.files) RETURN_IF_ERROR(TakeFile(within, name));
    for (const std::string& name : contents.folders) {
      const std::string path = directory + name;
      std::error_code ignored;
      const bool by_link = through_link || fs::is_symlink(path, ignored);
      if (IsHidden(name)) {
        hidden_.push_back(path);
      } else if (by_link && IsAbove(path)) {
        loops_.push_back(path);
      } else {
        above_.push_back(path);
        RETURN_IF_ERROR(Visit(absl::StrCat(within, name, "/"), by_link));
        above_.pop_back();
      }
    }
    return absl::OkStatus();
  }

  absl::Status TakeFile(const std::string& within, const std::string& name) {
    const std::string path = absl::StrCat(folder_, "/", within, name);
    if (EndsWithOneOf(name, kRead)) {
      if (IsHidden(name)) {
        hidden_.push_back(path);
      } else {
        found_.emplace_back(within, name);
      }
    } else if (EndsWithOneOf(name, kNotRead) && !IsHidden(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": images of this format are not read; JPEG and PNG are"));
    }
    return absl::OkStatus();
  }

  bool IsAbove(const std::string& path) const {
    return std::any_of(above_.begin(), above_.end(), [&](const std::string& folder) {
      std::error_code ignored;
      return fs::equivalent(path, folder, ignored);
    });
  }

  void Notice(const std::vector<std::string>& paths, const char* one, const char* several) {
    if (paths.size() == 1) notices_.push_back(absl::StrCat(paths.front(), " ", one));
    if (paths.size() > 1)
      notices_.push_back(absl::StrCat(paths.front(), " and ", paths.size() - 1, " more ", several));
  }

  const std::string& folder_;
  std::vector<std::string>& notices_;
  std::vector<std::string> above_;                          // the folders that lead here
  std::vector<std::pair<std::string, std::string>> found_;  // by folder within, and name
  std::vector<std::string> hidden_;
  std::vector<std::string> loops_;
};

}  // namespace

bool HasSplits(const std::string& directory) { return SplitsOf(directory).has_value(); }

absl::StatusOr<std::string> SplitFolder(const std::string& directory, Split split) {
  std::error_code error;
  const fs::file_status status = fs::status(directory, error);
  if (!fs::exists(status)) return SystemError(directory, error);
  const std::optional<Splits> splits = SplitsOf(directory);
  if (!splits.has_value()) return directory;
  if (split == Split::kTrain) return splits->train;
  return split == Split::kTest ? splits->test : splits->validation;
}

absl::StatusOr<std::vector<std::string>> ClassFolders(const std::string& directory,
                                                      std::vector<std::string>& notices) {
  ASSIGN_OR_RETURN(const Contents contents, ContentsOf(directory));
  std::vector<std::string> names;
  for (const std::string& name : contents.folders) {
    const std::string path = absl::StrCat(directory, "/", name);
    std::error_code ignored;
    if (IsHidden(name)) {
      notices.push_back(absl::StrCat(path, " is hidden, and no class"));
    } else if (fs::equivalent(path, directory, ignored)) {
      notices.push_back(absl::StrCat(path, " leads back to ", directory, ", and is no class"));
    } else {
      names.push_back(name);
    }
  }
  if (!names.empty() && std::all_of(names.begin(), names.end(), IsSplitName)) {
    notices.push_back(absl::StrCat(directory, " has the classes ", absl::StrJoin(names, ", "),
                                   "; if these are splits, ", directory, "/", names.front(),
                                   " is the dataset of one"));
  }
  if (!names.empty()) return names;
  return absl::NotFoundError(absl::StrCat(directory, ": there is no folder for a class of images"));
}

absl::StatusOr<std::vector<std::string>> ImageFiles(const std::string& folder,
                                                    std::vector<std::string>& notices) {
  return Walk(folder, notices).Files();
}

}  // namespace neap
