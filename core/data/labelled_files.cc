#include "neap/core/data/labelled_files.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "neap/core/base/file.h"
#include "neap/core/base/status_macros.h"

namespace neap {
namespace {

namespace fs = std::filesystem;

// The digits of "_0000", a channel's number in nnU-Net.
constexpr size_t kChannelDigits = 4;

// Lists have a name in a line: of some million files, or of classes.
constexpr int64_t kMaxListBytes = int64_t{256} << 20;

struct FolderPair {
  std::string examples;
  std::string labels;
  std::string list = {};  // a file with the stems; empty: all
  friend bool operator==(const FolderPair&, const FolderPair&) = default;
};

bool IsFolder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool IsFile(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

// The names of a split, the most usual first.
std::vector<const char*> NamesOf(Split split) {
  if (split == Split::kTrain) return {"train", "training"};
  if (split == Split::kTest) return {"test", "testing", "val", "valid", "validation"};
  return {"val", "valid", "validation", "test", "testing"};
}

// `within`: "" or "/train", behind the names of both folders.
std::optional<FolderPair> PairIn(const std::string& root, const std::string& within) {
  for (const char* const examples : {"images", "JPEGImages"}) {
    for (const char* const labels : {"masks", "labels", "annotations", "SegmentationClass"}) {
      FolderPair pair = {.examples = absl::StrCat(root, "/", examples, within),
                         .labels = absl::StrCat(root, "/", labels, within)};
      if (IsFolder(pair.examples) && IsFolder(pair.labels)) return pair;
    }
  }
  return std::nullopt;
}

std::optional<FolderPair> PairOf(const std::string& root, Split split) {
  const bool train = split == Split::kTrain;
  FolderPair nnunet = {.examples = absl::StrCat(root, "/images", train ? "Tr" : "Ts"),
                       .labels = absl::StrCat(root, "/labels", train ? "Tr" : "Ts")};
  if (IsFolder(nnunet.examples) && IsFolder(nnunet.labels)) return nnunet;
  for (const char* const name : NamesOf(split)) {
    std::optional<FolderPair> pair = PairIn(absl::StrCat(root, "/", name), "");
    if (!pair.has_value()) pair = PairIn(root, absl::StrCat("/", name));
    if (pair.has_value()) return pair;
  }
  std::optional<FolderPair> whole = PairIn(root, "");
  if (!whole.has_value()) return whole;
  for (const char* const name : NamesOf(split)) {
    const std::string list = absl::StrCat(root, "/ImageSets/Segmentation/", name, ".txt");
    if (!IsFile(list)) continue;
    whole->list = list;
    break;
  }
  return whole;
}

using PathsByStem = std::map<std::string, std::string>;

// The stem of a file with one of the suffixes.
std::optional<std::string> StemOf(const std::string& name,
                                  const std::vector<std::string>& suffixes) {
  for (const std::string& suffix : suffixes) {
    if (name.size() > suffix.size() && absl::EndsWithIgnoreCase(name, suffix))
      return name.substr(0, name.size() - suffix.size());
  }
  return std::nullopt;
}

absl::StatusOr<PathsByStem> FilesByStem(const std::string& folder,
                                        const std::vector<std::string>& suffixes) {
  PathsByStem files;
  std::error_code error;
  fs::directory_iterator entry(folder, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename();
    const std::optional<std::string> stem = StemOf(name, suffixes);
    if (!stem.has_value() || name.front() == '.') continue;
    const std::string path = absl::StrCat(folder, "/", name);
    const auto [at, is_new] = files.emplace(*stem, path);
    if (is_new) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        std::min(at->second, path), " and ", std::max(at->second, path), " have the same stem"));
  }
  if (error) return absl::UnknownError(absl::StrCat(folder, ": ", error.message()));
  return files;
}

// "case" and 1 of "case_0001".
struct ChannelOf {
  std::string owner;
  int64_t channel = 0;
};
std::optional<ChannelOf> ParseChannel(const std::string& stem) {
  if (stem.size() <= kChannelDigits + 1) return std::nullopt;
  const size_t at = stem.size() - kChannelDigits - 1;
  if (stem[at] != '_') return std::nullopt;
  ChannelOf parsed = {.owner = stem.substr(0, at)};
  for (const char digit : stem.substr(at + 1)) {
    if (digit < '0' || digit > '9') return std::nullopt;
    parsed.channel = 10 * parsed.channel + (digit - '0');
  }
  return parsed;
}

struct OwnedExamples {
  std::map<std::string, std::vector<std::string>> by_stem;  // of labels; channels in their order
  int64_t unlabelled = 0;
};

// `examples` are in the order of their stems, and so channels in that of their numbers.
absl::StatusOr<OwnedExamples> FindOwners(const PathsByStem& examples, const PathsByStem& labels) {
  OwnedExamples found;
  for (const auto& [stem, path] : examples) {
    const ChannelOf part =
        labels.contains(stem) ? ChannelOf{.owner = stem} : ParseChannel(stem).value_or(ChannelOf());
    if (!labels.contains(part.owner)) {
      ++found.unlabelled;
      continue;
    }
    std::vector<std::string>& channels = found.by_stem[part.owner];
    if (part.channel != std::ssize(channels)) {
      return absl::InvalidArgumentError(absl::StrCat(
          path, ": this is channel ", part.channel, " of '", part.owner, "', of which there are ",
          channels.size(), " before it; channels are numbered from 0 without gaps"));
    }
    channels.push_back(path);
  }
  return found;
}

absl::StatusOr<std::set<std::string>> StemsIn(const std::string& list) {
  ASSIGN_OR_RETURN(const ReadableFile file, ReadableFile::Open(list));
  ASSIGN_OR_RETURN(const std::string text, file.ReadAll(kMaxListBytes));
  return std::set<std::string>(absl::StrSplit(text, absl::ByAnyChar(" \t\r\n"), absl::SkipEmpty()));
}

// Takes the labels whose stems the list has, or all without a list.
absl::Status KeepListed(const std::string& list, PathsByStem& labels) {
  if (list.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::set<std::string> stems, StemsIn(list));
  for (const std::string& stem : stems) {
    if (!labels.contains(stem))
      return absl::NotFoundError(absl::StrCat(list, ": '", stem, "' has no file with labels"));
  }
  std::erase_if(labels, [&](const auto& label) { return !stems.contains(label.first); });
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<LabelledFiles> FindLabelledFiles(const std::string& directory, Split split,
                                                const LabelledSuffixes& suffixes) {
  if (!IsFolder(directory)) return absl::NotFoundError(absl::StrCat(directory, ": no such folder"));
  const std::optional<FolderPair> pair = PairOf(directory, split);
  if (!pair.has_value()) {
    return absl::NotFoundError(
        absl::StrCat(directory,
                     ": there is no folder images with a folder masks, labels or "
                     "annotations beside it"));
  }
  ASSIGN_OR_RETURN(const auto examples, FilesByStem(pair->examples, suffixes.examples));
  ASSIGN_OR_RETURN(auto labels, FilesByStem(pair->labels, suffixes.labels));
  RETURN_IF_ERROR(KeepListed(pair->list, labels));
  ASSIGN_OR_RETURN(OwnedExamples owned, FindOwners(examples, labels));
  LabelledFiles found;
  for (auto& [stem, path] : labels) {
    const auto of = owned.by_stem.find(stem);
    if (of == owned.by_stem.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": there is no file of this stem in ", pair->examples));
    }
    found.files.push_back({.stem = stem, .examples = std::move(of->second), .labels = path});
  }
  if (owned.unlabelled > 0 && pair->list.empty()) {
    found.notices.push_back(absl::StrCat(owned.unlabelled, " files of ", pair->examples,
                                         " have no labels and are left out"));
  }
  if (!found.files.empty()) return found;
  return absl::NotFoundError(absl::StrCat(pair->labels, ": there are no labels"));
}

bool HasLabelledSplits(const std::string& directory) {
  const std::optional<FolderPair> train = PairOf(directory, Split::kTrain);
  const std::optional<FolderPair> test = PairOf(directory, Split::kTest);
  return train.has_value() && test.has_value() && train != test;
}

absl::StatusOr<std::vector<std::string>> NamesOfClasses(const std::string& directory) {
  const std::string path = absl::StrCat(directory, "/classes.txt");
  absl::StatusOr<ReadableFile> file = ReadableFile::Open(path);
  if (absl::IsNotFound(file.status())) return std::vector<std::string>();
  if (!file.ok()) return file.status();
  ASSIGN_OR_RETURN(const std::string text, file->ReadAll(kMaxListBytes));
  std::vector<std::string> names;
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (const std::string& line : lines) names.emplace_back(absl::StripSuffix(line, "\r"));
  if (!names.empty() && names.back().empty()) names.pop_back();  // behind the last newline
  const std::set<std::string> distinct(names.begin(), names.end());
  if (distinct.contains("") || distinct.size() != names.size())
    return absl::InvalidArgumentError(absl::StrCat(path, ": a name is empty or there twice"));
  return names;
}

}  // namespace neap
