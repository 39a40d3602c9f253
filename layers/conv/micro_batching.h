// Divides the mini-batch of one convolution into micro-batches such that it runs as fast as
// possible within one workspace limit (u-cuDNN III-B, "WR") or for every limit (III-C, "desirable
// configurations").
//
// The number of divisions is exponential. A division's time is the sum over its parts and its
// workspace the maximum, so under a limit T(b) = min(T_u(b), min_u T_u(u) + T(b - u)): the fastest
// way to run b images is either one engine, or one part followed by the fastest way for the rest.
// Parts after the first may cost more (Addition), so the first is chosen last. For the whole batch
// the time changes with the limit only where another division begins to fit, and the desirable
// configurations are these steps:
//
//   seconds
//   |  o               a limit here ...            o: desirable, less workspace is slower
//   |  .  x   |                                    x: another division, slower in more workspace
//   |  o......|   x    ... allows this
//   |         | o  . . . . . . . . . .  undivided
//   +---------+------------------------> workspace
//
// Kernels may require parts to begin at multiples of some number of images, the granularity
// (core/step/divided_kernel.h). All parts but the last are then multiples of it, and the last part
// has the remainder: for example, 150 images at a granularity of 4 can be 128 + 16 + 4 + 2.
//
// Times are added up in whole picoseconds, so sums do not depend on their order, and results are
// the same on every machine.
//
//   std::vector<TimedEngine> engines;
//   for (int64_t size : MicroBatchSizes(DivisionPolicy::kPowerOfTwo, 256, 1))
//     engines.push_back({.engine = "winograd", .batch = size, .seconds = seconds_for(size)});
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

// The micro-batch sizes that are measured and used (u-cuDNN III-B, "micro-batch size policies").
enum class DivisionPolicy : uint8_t { kUndivided, kPowerOfTwo, kAll };
std::string_view Name(DivisionPolicy policy);  // "undivided", "power-of-two", "all"
// Errors: INVALID_ARGUMENT with the known names.
absl::StatusOr<DivisionPolicy> ParseDivisionPolicy(std::string_view text);

// The sizes in rising order. Undivided: {batch}. Power of two: 1, 2, 4, ..., the remainder of the
// batch by the granularity, and the batch itself, so every policy has the undivided step. All: 1,
// 2, 3, ..., batch. Sizes that the granularity rules out are omitted.
std::vector<int64_t> MicroBatchSizes(DivisionPolicy policy, int64_t batch, int64_t granularity);

inline bool IsPowerOfTwo(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

// The fastest division of `batch` images whose workspace fits the limit. Ties go to the fewest
// parts, then the smallest workspace, and between engines of equal time and workspace to the first
// by name. Returns nullopt if nothing fits. Engines for impossible part sizes are ignored.
// *Complexity*: O(batch x sizes), although the number of divisions is exponential.
std::optional<Configuration> FastestDivision(absl::Span<const TimedEngine> engines, int64_t batch,
                                             int64_t granularity, int64_t workspace_limit_bytes);

// The Pareto front of time and workspace within the limit, in order of rising workspace and
// strictly falling time. It contains every optimum: for any limit, the fastest configuration that
// fits is as fast as FastestDivision().
// *Complexity*: O(result x batch x sizes) at worst. Limits are tried from the top, each a byte
// below the last result's workspace, and only sizes whose best division no longer fits are
// recomputed.
std::vector<Configuration> DesirableConfigurations(absl::Span<const TimedEngine> engines,
                                                   int64_t batch, int64_t granularity,
                                                   int64_t workspace_limit_bytes);

// The last configuration of the front (in rising workspace) that fits; null if none does.
const Configuration* FastestThatFits(absl::Span<const Configuration> front,
                                     int64_t workspace_bytes);

}  // namespace neap
