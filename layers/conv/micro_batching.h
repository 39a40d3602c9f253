// Divides the mini-batch of one convolution into micro-batches, so that it is as fast as it can be
// in a given workspace (u-cuDNN III-B, "WR") or in any (III-C, "desirable configurations").
//
// There are exponentially many divisions. A division's time is the sum of its parts' and its
// workspace the largest of them, so under a limit T(b) = min(T_u(b), min_u T_u(u) + T(b - u)): the
// fastest way for b images is one engine, or a part and the fastest way for the rest. Parts after
// the first may cost more (Addition), so the first is chosen last. For the whole batch the
// time only changes with the limit where an engine begins to fit, and the desirable configurations
// are the steps:
//
//   seconds
//   |  o               a limit here ...            every o is desirable: less workspace is slower
//   |  .  x   |                                    x: another division, slower in more workspace
//   |  o......|   x    ... buys this
//   |         | o  . . . . . . . . . .  undivided
//   +---------+------------------------> workspace
//
// Kernels may want their parts to begin at multiples of some number of images, the granularity
// (core/step/divided_kernel.h). So all parts but the last are multiples of it, and the last has
// what then is left: of 150 images at a granularity of 4, say, 128 + 16 + 4 + 2.
//
// Times are added up in whole picoseconds: equal is equal whatever the order of the sum, and
// results are the same on every machine.
//
//   std::vector<TimedEngine> engines;                      // for every size that may be used:
//   for (int64_t size : MicroBatchSizes(DivisionPolicy::kPowerOfTwo, 256, 1)) { ... }
//   std::optional<Configuration> now = FastestDivision(engines, 256, 1, 64 * kMiB);
//   std::vector<Configuration> front = DesirableConfigurations(engines, 256, 1, 512 * kMiB);
//   const Configuration* same = FastestThatFits(front, 64 * kMiB);  // as fast as `now`
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/layers/catalog/kernel_timings.h"
#include "neap/layers/conv/configuration.h"

namespace neap {

// Which sizes of micro-batches are measured, and so used (u-cuDNN III-B, "micro-batch size
// policies").
enum class DivisionPolicy : uint8_t { kUndivided, kPowerOfTwo, kAll };
std::string_view Name(DivisionPolicy policy);  // "undivided", "power-of-two", "all"
// Errors: INVALID_ARGUMENT naming those that there are.
absl::StatusOr<DivisionPolicy> ParseDivisionPolicy(std::string_view text);

// Rising. Undivided: {batch}. Power of two: 1, 2, 4, ..., what these leave of the granularity, and
// the batch itself, also where that is no power of two, so that no policy loses the undivided step.
// All: 1, 2, 3, ..., batch. Without those that can be no part.
std::vector<int64_t> MicroBatchSizes(DivisionPolicy policy, int64_t batch, int64_t granularity);

inline bool IsPowerOfTwo(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

// The fastest division of `batch` images whose workspace fits the limit; of equally fast ones that
// with the fewest parts, then the smallest workspace; of engines equal in time and workspace the
// first by name. Empty where nothing fits. Engines for what can be no part are ignored.
// *Complexity*: O(batch x sizes), whatever the number of divisions.
std::optional<Configuration> FastestDivision(absl::Span<const TimedEngine> engines, int64_t batch,
                                             int64_t granularity, int64_t workspace_limit_bytes);

// The Pareto front: all configurations within the limit such that none is as fast in less
// workspace or faster in as much, by rising workspace and strictly falling time. It loses no
// optimum: at every limit, the fastest that fits is as fast as FastestDivision().
// *Complexity*: O(result x batch x sizes) at worst. One limit after another is tried from the top,
// each a byte below the last result's workspace, and only batches whose own best division no longer
// fits are divided anew.
std::vector<Configuration> DesirableConfigurations(absl::Span<const TimedEngine> engines,
                                                   int64_t batch, int64_t granularity,
                                                   int64_t workspace_limit_bytes);

// The last of the front (by rising workspace) that fits; null where none does.
const Configuration* FastestThatFits(absl::Span<const Configuration> front,
                                     int64_t workspace_bytes);

}  // namespace neap
