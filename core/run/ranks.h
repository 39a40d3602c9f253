// What the ranks of data parallelism agree on before they train together. For sessions and engines
// of sums.
//
// A rank that fails alone, because its budget is too small or its graph is another one, would leave
// the others waiting for it. So all of them say how far they have come, and fail together.
//
//   ASSIGN_OR_RETURN(options.share, ShareOf(graph.options().batch, communicator));
//   const absl::Status own = Plan(graph);
//   RETURN_IF_ERROR(Agree(own, TermsOf(program, {}, 1), communicator));
//
// All ranks must call the same functions in the same order. A session that trains alone has no
// communicator (null), and agrees with itself. *Errors*: those of the communicator.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/checkpoint/checkpoint.h"
#include "neap/core/device/communicator.h"
#include "neap/core/program/program.h"
#include "neap/core/run/learning_rate.h"

namespace neap {

// The rank's images follow those of the ranks before it. Errors: INVALID_ARGUMENT for a batch
// without images.
absl::StatusOr<RankShare> ShareOf(int64_t batch, TextExchange* group);

// What must be the same on all ranks, as names and values.
using Terms = std::vector<std::pair<std::string, std::string>>;
Terms TermsOf(const Program& program, const LearningRate& rate, uint64_t seed);

// What a checkpoint has set.
Terms TermsOf(const LoadedCheckpoint& loaded);

// OK only if `own` is on all ranks, with the same terms. Errors: that of the first rank that has
// one, as "rank 3: ..." on the others, but ABORTED only if no rank has another; INVALID_ARGUMENT
// naming the first term that differs; INTERNAL if the ranks do not call the same functions.
absl::Status Agree(const absl::Status& own, const Terms& terms, TextExchange* group);

// The number of rank 0. Errors: INTERNAL if the ranks do not call the same functions.
absl::StatusOr<int64_t> OfFirstRank(int64_t own, TextExchange* group);

// Whether it is true on all ranks. Errors: INTERNAL if the ranks do not call the same functions.
absl::StatusOr<bool> OnAllRanks(bool own, TextExchange* group);

// Whether another rank has the error, too, and reports it.
bool IsOfAnotherRank(const absl::Status& error);

}  // namespace neap
