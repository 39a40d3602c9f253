// Finds the largest size that fits, by interpolation of bytes, or by galloping and then by
// bisection; or, of sizes that fit, the largest that keeps a share of the speed.
//
// A batch or a depth is feasible up to some size, which only planning reveals. Doubling from 1
// brackets that size within a factor of two, so only few probes plan large networks, which take the
// longest.
//
//   fits      1   2   4   8   16  |  12  14  13           13 fits, 14 does not
//             y   y   y   y   n      y   n   y
//
//   ASSIGN_OR_RETURN(const PeakSearch found, FindLargest(1 << 24, fits));
//
// If a probe tells about how many bytes its size needs, two show how many each increment takes, and
// the third is near the answer, because bytes are nearly linear in the batch, and in the depth:
//
//   bytes  budget|-----------------------x     1 and 4 lead to 12, which fits; 13 does not
//                |               x
//                |   x
//                +---1-----------4-------12
//
//   ASSIGN_OR_RETURN(const PeakSearch found,
//                    FindLargestByBytes({.most = 1 << 24}, 12 * kGiB, try_size, 1));
//
// Whether a size fits is monotone. Whether it keeps its speed is not quite: the predicted speed of
// a plan rises and falls by a few percent from one batch to the next, because other engines and
// other tensors fit. FindLargestKept() therefore guarantees of the size that it returns: it keeps
// its speed; the next size does not, if it fits; and neither do the four sizes that are 1/64, 2/64,
// 3/64 and 4/64 larger (at least 1, 2, 3 and 4). A size still farther above may keep its speed,
// too.
//
//   keeps     100  200 | 150  125  137  ..  131 132 | 134 136 138 140    131 keeps its speed,
//             y    n   | n    y    n        y   n   | n   n   n   n      132 does not
//
//   ASSIGN_OR_RETURN(const PeakSearch kept, FindLargestKept(100, 200, keeps));
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "absl/status/statusor.h"

namespace neap::apps {

struct PeakSearch {
  int64_t largest = 0;  // 0: not even 1 fits
  int64_t probes = 0;
  double elapsed_ms = 0;
  double bytes_per_size = 0;  // of FindLargestByBytes(), near the largest; 0 if it is not known
};

// `found` with the probes and the time of the search before it.
PeakSearch After(const PeakSearch& before, PeakSearch found);

using Fits = std::function<absl::StatusOr<bool>(int64_t size)>;

// Searches sizes 1 to `most`, and tries `from` first, then sizes around it. *Complexity*: about
// 2 log2(d) probes, where d is how far the largest is from `from`, in strides of 1/64 of `from`, at
// least 1. Errors: those of `fits`.
absl::StatusOr<PeakSearch> FindLargest(int64_t most, const Fits& fits, int64_t from = 1);

struct SizeProbe {
  bool fits = false;
  std::optional<int64_t> bytes = {};  // about what the size needs; absent if nothing is known
};
using TrySize = std::function<absl::StatusOr<SizeProbe>(int64_t size)>;

struct SizeRange {
  int64_t reached = 0;  // fits, and is not tried
  int64_t most = 0;
  double bytes_per_size = 0;  // PeakSearch::bytes_per_size of a similar search; 0: not known
};

// Searches sizes above `range.reached`, and tries `from` first. `largest` is `range.reached` if
// none fits. No size is tried twice, and whether a size fits is decided by the probe alone.
// *Complexity*: four or five probes where bytes are linear, two if `from` is the largest; at most
// about 4 log2(most). Errors: those of `try_size`.
absl::StatusOr<PeakSearch> FindLargestByBytes(const SizeRange& range, int64_t budget_bytes,
                                              const TrySize& try_size, int64_t from);

// Searches sizes 1 to `most`, all of which fit; those up to about `likely` probably keep their
// speed. `from` keeps its speed, so smaller sizes are not tried; or it is 0. `largest` is 0 if none
// was found that does. *Complexity*: about log2(most - likely) + 7 probes, no size twice; more only
// if a neighbour keeps its speed. Errors: those of `keeps`.
absl::StatusOr<PeakSearch> FindLargestKept(int64_t likely, int64_t most, const Fits& keeps,
                                           int64_t from = 0);

}  // namespace neap::apps
