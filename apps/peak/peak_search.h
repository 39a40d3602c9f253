// Finds the largest size that fits, by galloping and then by bisection.
//
// A batch or a depth is feasible up to some size, which only planning reveals. Doubling from 1
// brackets that size within a factor of two, so only few probes plan large networks, which take the
// longest.
//
//   fits      1   2   4   8   16  |  12  14  13           13 fits, 14 does not
//             y   y   y   y   n      y   n   y
//
//   ASSIGN_OR_RETURN(const PeakSearch found, FindLargest(1 << 24, fits));
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"

namespace neap::apps {

struct PeakSearch {
  int64_t largest = 0;  // 0: not even 1 fits
  int64_t probes = 0;
  double elapsed_ms = 0;
};

using Fits = std::function<absl::StatusOr<bool>(int64_t size)>;

// Searches sizes 1 to `most`. *Complexity*: about 2 log2(largest) probes. Errors: those of `fits`.
absl::StatusOr<PeakSearch> FindLargest(int64_t most, const Fits& fits);

}  // namespace neap::apps
