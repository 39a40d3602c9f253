// Which numbers of sub-batches are planned to find the fastest one: few, because a plan takes from
// milliseconds to seconds.
//
//   parts              1     2     4     8     16      7     6     5
//   kernels alone, ms  14.1  14.1  14.3  15.1  16.9    14.9  14.7  14.5
//   the plan, ms             17.1  15.6  15.2          15.0  14.8  15.1
//                                        start: nothing has to move
//
// With more parts kernels take longer: weights are read more often, gradients are added up, and
// more kernels are launched. What a plan takes in addition, to move and rebuild what does not fit,
// falls with the number of parts, but for a few percent of noise. The search begins where nothing
// has to move, if that is known, because such a plan is made quickly, and others need only be
// compared with it. From there numbers are doubled until kernels alone take as long as the best
// plan, and halved until plans only take longer. Of the numbers between two that were tried, the
// one that is likely to be the fastest comes next, unless even the additional time of its larger
// neighbour makes it too slow.
//
//   RETURN_IF_ERROR(SearchParts(PartCounts(250), {.start = 8}, [&](int64_t count) {
//     return Attempt(count);  // plans, and keeps the plan if it is the fastest so far
//   }));
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace neap {

// Batches of up to 1024 images are divided in all ways. Of larger ones, these are about as many
// ways, with all numbers of parts up to 64 and all powers of two among them.
inline constexpr int64_t kMaxBatchOfAllCounts = 1024;

// The numbers of parts that a batch may be run in, ascending from 1: those that DivideBatch()
// (core/program/sub_batches.h) gives.
std::vector<int64_t> PartCounts(int64_t batch);

// The outcome of an attempt to plan a number of parts.
struct PartsAttempt {
  enum class Outcome : uint8_t {
    kFits,
    kRefused,  // it does not fit the budget, or cannot be run in so many parts
    kSlow,     // kernels alone take about as long as the best plan
    kTooLong,  // it has too many steps, and so have more parts
  };
  Outcome outcome = Outcome::kRefused;
  double kernels_ms = 0;          // without what is moved and rebuilt, unless it is too long
  std::optional<double> ms = {};  // of a plan that is the fastest so far
};
using AttemptParts = absl::FunctionRef<absl::StatusOr<PartsAttempt>(int64_t count)>;

struct PartsSearchOptions {
  int64_t start = 1;                                         // one of the counts
  double best_ms = std::numeric_limits<double>::infinity();  // of the best plan of other programs
  // Doubling ends after so many numbers in a row that fit and are not faster.
  int max_misses = std::numeric_limits<int>::max();
  // The numbers that are tried between others, at most.
  int max_refinements = 8;
};

// A plan that can gain no more than this part of its time is good enough.
inline constexpr double kMinPartsGain = 0.001;

// Calls `attempt` for some of `counts`, which are those of PartCounts(), each at most once. Errors:
// those of `attempt`.
absl::Status SearchParts(const std::vector<int64_t>& counts, const PartsSearchOptions& options,
                         AttemptParts attempt);

}  // namespace neap
