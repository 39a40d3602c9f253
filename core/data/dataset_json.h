// What nnU-Net's file dataset.json says of the labels of the folder that it is in: its field
// "labels" has their names and numbers, such as "background" 0, "liver" 1 and "ignore" 2.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace neap {

// The label "ignore", of voxels whose class is not known, which nnU-Net numbers behind the classes.
// Empty if the file says nothing of it, and if there is none. Errors: INVALID_ARGUMENT naming the
// file if it is not JSON, or if the label is not a number from 0.
absl::StatusOr<std::optional<int32_t>> IgnoredLabel(const std::string& directory);

}  // namespace neap
