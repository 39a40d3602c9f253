// The largest size that fits, of what grows with its size: by galloping, then by halving.
//
// A batch or a depth is feasible up to some size and no further, and how far nobody knows without
// planning. Doubling from the smallest brackets the answer within a factor of two whatever it is,
// so that few probes are of large networks, which take longest to plan.
//
//   fits      1   2   4   8   16  |  12  14  13           13 fits, 14 does not
//             y   y   y   y   n      y   n   y
//
//   ASSIGN_OR_RETURN(const PeakSearch found, FindLargest(1 << 24, [&](int64_t batch) { ... }));
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

// Sizes are 1 to `most`. *Complexity*: about 2 log2(largest) probes. Errors: those of `fits`.
absl::StatusOr<PeakSearch> FindLargest(int64_t most, const Fits& fits);

}  // namespace neap::apps
