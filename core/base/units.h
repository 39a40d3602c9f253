// Byte counts: constants, and their textual form on the command line and in messages.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace neap {

inline constexpr int64_t kKiB = 1024;
inline constexpr int64_t kMiB = 1024 * kKiB;
inline constexpr int64_t kGiB = 1024 * kMiB;
// A budget or a limit of this value is no limit.
inline constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// `value` rounded up to the next multiple of `unit` (> 0).
constexpr int64_t RoundUp(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }

constexpr double InMebibytes(int64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(kMiB);
}

// "12GiB", "1.5 MiB", "64KB" (powers of 1000), "4096" (bytes) -> bytes, rounded down.
// Errors: INVALID_ARGUMENT for anything else, and for overflowing amounts and those below `least`,
// which is at least 0. For "512M", which some programs read as MiB and others as MB, the message
// suggests both.
absl::StatusOr<int64_t> ParseBytes(std::string_view text, int64_t least = 1);

// 1610612736 -> "1.500 GiB": the largest binary unit in which the value is at least 1, with three
// decimals.
std::string FormatBytes(int64_t bytes);

}  // namespace neap
