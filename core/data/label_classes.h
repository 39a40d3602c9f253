// How many classes the labels of a dataset have, of which each example has many in a file of its
// own.
//
// Files of labels have numbers alone. The names of the classes in DIR/classes.txt say how many
// there are; otherwise the caller may, such as for a network; otherwise all files are read, on all
// cores.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace neap {

// In masks, label files and labels of one byte: no label (kNoLabel).
inline constexpr int32_t kIgnoredClass = 255;

// The largest class among labels of one byte, or kNoLabel if all are kIgnoredClass.
int32_t LargestClass(absl::Span<const uint8_t> labels);

// `largest_in(i)` reads file i of `files`: its largest class, or kNoLabel. It is called from
// several threads at once. Errors: INVALID_ARGUMENT for fewer classes than 1 or more than
// kIgnoredClass; the first of `largest_in`.
absl::StatusOr<int64_t> ClassesOfLabels(
    const std::string& directory, const std::vector<std::string>& names,
    std::optional<int64_t> given, int64_t files,
    const std::function<absl::StatusOr<int32_t>(int64_t)>& largest_in);

}  // namespace neap
