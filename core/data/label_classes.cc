#include "neap/core/data/label_classes.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/parallel.h"
#include "neap/core/base/without_throwing.h"
#include "neap/core/program/feeds.h"

namespace neap {
namespace {

constexpr size_t kMaxReaders = 16;

}  // namespace

int32_t LargestClass(absl::Span<const uint8_t> labels) {
  int32_t largest = kNoLabel;
  for (const uint8_t label : labels) {
    if (label != kIgnoredClass) largest = std::max(largest, int32_t{label});
  }
  return largest;
}

absl::StatusOr<int64_t> ClassesOfLabels(
    const std::string& directory, const std::vector<std::string>& names,
    std::optional<int64_t> given, int64_t files,
    const std::function<absl::StatusOr<int32_t>(int64_t)>& largest_in) {
  if (!names.empty()) given = std::ssize(names);
  if (!given.has_value()) {
    std::vector<absl::StatusOr<int32_t>> largest(static_cast<size_t>(files), kNoLabel);
    EachInParallel(largest.size(), kMaxReaders, [&] {
      return [&](size_t i) {
        largest[i] =
            WithoutThrowing(directory, [&] { return largest_in(static_cast<int64_t>(i)); });
      };
    });
    given = 0;
    for (const absl::StatusOr<int32_t>& of_file : largest) {
      if (!of_file.ok()) return of_file.status();
      given = std::max(*given, int64_t{*of_file} + 1);
    }
  }
  if (*given >= 1 && *given <= kIgnoredClass) return *given;
  return absl::InvalidArgumentError(
      absl::StrCat(directory, ": ", *given, " classes; labels have 1 to ", kIgnoredClass));
}

}  // namespace neap
