// The rounds of the plan search: candidates that are tried side by side, and the fastest so far.
//
//   round        1       2           3
//   parts       |#|#|   |#|#|#|#|   |#|#|#|#|#|#|#|#|   side by side, each a few levels of a ladder
//   fastest us  ----->  -------->   ---------------->   of the rounds before: what is not faster is
//                                                       left out
//
// Rounds become longer: there is nothing to compare the first candidates to. All parts of a round
// start from the fastest candidate of the rounds before, so the plan does not depend on the number
// of threads.
//
//   SearchRounds rounds(parts, /*budget_bytes=*/12 * kGiB, kNoTimeLimit);
//   RETURN_IF_ERROR(rounds.TryLadders());
//   const std::optional<Candidate>& fastest = rounds.fastest();
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "neap/core/plan/plan.h"
#include "neap/memory/search/candidate.h"
#include "neap/memory/search/plan_search_parts.h"
#include "neap/memory/search/rung_queue.h"
#include "neap/memory/search/search_order.h"

namespace neap {

class SearchRounds {
 public:
  // For candidates that fit the budget and take less than `limit_us`. *Ownership*: borrows the
  // parts.
  SearchRounds(const PlanSearchParts& parts, int64_t budget_bytes, double limit_us)
      : parts_(parts),
        budget_bytes_(budget_bytes),
        scratch_(parts.Scratch()),
        best_({.us = limit_us}) {}

  // Compares one more candidate, with its actions, with the fastest.
  void Offer(const Candidate& written);
  // Compares the candidates of all levels that fit the budget, or of the likely ones. Errors: those
  // of WriteCandidate().
  absl::Status TryLadders();
  // Compares the two ends of the orders without prices, of which no level may be as good: nothing
  // is moved, and everything that can be.
  absl::Status TryEnds();

  // With its actions; absent if none takes less than the limit.
  const std::optional<Candidate>& fastest() const { return best_.candidate; }

 private:
  // The fastest candidate so far, or just a time to beat.
  struct Fastest {
    double us = kNoTimeLimit;
    std::optional<Candidate> candidate = {};
  };
  // Replaces `best` by a faster candidate of a part of a round, if it has one. `scratch` describes
  // the program.
  using TryPart = absl::FunctionRef<absl::Status(size_t part, Plan& scratch, Fastest& best)>;

  size_t MaxOfRound() const;  // parts
  // Tries the parts side by side. Each is compared with the fastest as it was before the round.
  absl::Status TryRound(size_t parts, TryPart try_part);
  // Tries one level after another.
  absl::Status TryRungs(const Rungs& rungs, Plan& scratch, Fastest& best) const;
  // Compares a placed candidate with `best`.
  absl::Status Consider(const SearchOrder& order, Candidate candidate, Plan& scratch,
                        Fastest& best) const;

  const PlanSearchParts& parts_;
  int64_t budget_bytes_;
  Plan scratch_;
  Fastest best_;
};

}  // namespace neap
