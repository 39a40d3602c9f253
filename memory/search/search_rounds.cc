#include "neap/memory/search/search_rounds.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "neap/core/base/parallel.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/plan/planner.h"

namespace neap {
namespace {

// The parts of a round. Rounds of short orders stay shorter, because one candidate soon rules out
// others.
constexpr size_t kMinOfRound = 2, kMaxOfRound = 8, kMaxOfShortRound = 4;
// Parts of rounds are vain if all together make the plan faster by less than kMinGainOfParts. A
// search for something faster than another plan ends with so many vain parts: the likely orders of
// runs come first. Short orders, of which all are tried soon, do not end it. A quick search ends
// with kMaxVainPartsOfQuick in any case.
constexpr double kMinGainOfParts = 0.005;
constexpr size_t kMaxVainParts = 256, kMaxVainPartsOfQuick = 32;
// A candidate is written with smaller workspaces, too, while that may gain more than the one part
// of its time, and if the other suffices to make it the fastest.
constexpr double kMinGainOfSmaller = 0.0005, kMaxGainOfSmaller = 0.03;

double RunsUs(const Candidate& written) {
  const std::vector<double>& seconds = written.written.compute_seconds;
  return 1e6 * std::accumulate(seconds.begin(), seconds.end(), 0.0);
}

// Ends a search after too many vain parts.
class Patience {
 public:
  Patience(double best_us, size_t max_vain_parts)
      : us_at_gain_(best_us), max_vain_parts_(max_vain_parts) {}

  // Whether the search ends after a round of so many parts.
  bool EndsAfter(size_t parts, double best_us) {
    vain_parts_ += parts;
    if (std::isinf(best_us) || best_us <= (1 - kMinGainOfParts) * us_at_gain_) {
      vain_parts_ = 0;
      us_at_gain_ = best_us;
    }
    return vain_parts_ >= max_vain_parts_;
  }

 private:
  double us_at_gain_;
  size_t max_vain_parts_;
  size_t vain_parts_ = 0;  // since the last gain of that part, or the first candidate
};

}  // namespace

void SearchRounds::Offer(const Candidate& written) {
  const double us = parts_.times.PredictedUs(written, best_.us, scratch_);
  if (us < best_.us) best_ = {us, written};
}

size_t SearchRounds::MaxOfRound() const {
  return parts_.orders.first().is_short() ? kMaxOfShortRound : kMaxOfRound;
}

absl::Status SearchRounds::TryRound(size_t parts, TryPart try_part) {
  std::vector<Fastest> found(parts, Fastest{.us = best_.us});
  std::vector<absl::Status> tried(parts);
  EachInParallel(parts, kMaxPlanningThreads, [&] {
    return [&, scratch = parts_.Scratch()](size_t i) mutable {
      tried[i] = try_part(i, scratch, found[i]);
    };
  });
  for (size_t i = 0; i < parts; ++i) {
    RETURN_IF_ERROR(tried[i]);
    if (found[i].us < best_.us) best_ = std::move(found[i]);
  }
  return absl::OkStatus();
}

absl::Status SearchRounds::TryLadders() {
  const bool is_limited = !best_.candidate.has_value() && !std::isinf(best_.us);
  size_t max_vain_parts = std::numeric_limits<size_t>::max();
  if (is_limited && !parts_.orders.first().is_short()) max_vain_parts = kMaxVainParts;
  if (parts_.options.quick) max_vain_parts = std::min(max_vain_parts, kMaxVainPartsOfQuick);
  Patience patience(best_.us, max_vain_parts);
  RungQueue queue(parts_.orders, parts_.residencies, parts_.floor, budget_bytes_);
  for (size_t of_round = kMinOfRound;; of_round = std::min(2 * of_round, MaxOfRound())) {
    const std::vector<Rungs> rungs = queue.Take(of_round, best_.us);
    if (rungs.empty()) return absl::OkStatus();
    const auto try_part = [&](size_t i, Plan& scratch, Fastest& best) {
      return TryRungs(rungs[i], scratch, best);
    };
    RETURN_IF_ERROR(TryRound(rungs.size(), try_part));
    if (patience.EndsAfter(rungs.size(), best_.us)) return absl::OkStatus();
  }
}

absl::Status SearchRounds::TryRungs(const Rungs& rungs, Plan& scratch, Fastest& best) const {
  const SearchOrder& order = *rungs.order;
  for (const int64_t limit_bytes : rungs.limits_bytes) {
    if (best.us <= rungs.least_us) break;
    for (Candidate& candidate : parts_.candidates.FasterAt(limit_bytes, best.us, order, scratch))
      RETURN_IF_ERROR(Consider(order, std::move(candidate), scratch, best));
  }
  return absl::OkStatus();
}

absl::Status SearchRounds::TryEnds() {
  std::vector<std::pair<const SearchOrder*, Usage>> ends;
  for (const SearchOrder& order : parts_.orders.all()) {
    if (order.is_priced) continue;
    ends.emplace_back(&order, kNoLimit);
    if (parts_.residencies.may_move()) ends.emplace_back(&order, Usage{});
  }
  for (size_t begin = 0; begin < ends.size(); begin += MaxOfRound()) {
    const auto try_part = [&](size_t i, Plan& scratch, Fastest& best) -> absl::Status {
      const auto& [order, limit] = ends[begin + i];
      std::optional<Candidate> candidate =
          parts_.candidates.FasterUnder(limit, best.us, *order, scratch);
      if (!candidate.has_value()) return absl::OkStatus();
      return Consider(*order, *std::move(candidate), scratch, best);
    };
    RETURN_IF_ERROR(TryRound(std::min(MaxOfRound(), ends.size() - begin), try_part));
  }
  return absl::OkStatus();
}

absl::Status SearchRounds::Consider(const SearchOrder& order, Candidate candidate, Plan& scratch,
                                    Fastest& best) const {
  if (candidate.arena_bytes > budget_bytes_) return absl::OkStatus();
  const int64_t capacity_bytes = parts_.residencies.Capacity(candidate.arena_bytes);
  if (parts_.floor.LeastUs(order, capacity_bytes) >= best.us) return absl::OkStatus();
  // A workspace in bytes that are left over may have to wait for a copy that still uses them. In
  // fewer bytes, one step after another gets a smaller workspace, and its runs take longer.
  const int64_t placed_bytes = candidate.arena_bytes;
  const bool may_wait = Copies(candidate);
  int64_t within = budget_bytes_;
  for (;;) {
    ASSIGN_OR_RETURN(candidate,
                     parts_.candidates.Write(std::move(candidate), order.engines, within));
    const double us = parts_.times.PredictedUs(candidate, best.us, scratch);
    const double fastest_us = std::min(us, best.us);
    within = candidate.written.peak_bytes - 1;
    const bool may_gain = RunsUs(candidate) < (1 - kMinGainOfSmaller) * fastest_us &&
                          us <= (1 + kMaxGainOfSmaller) * fastest_us;
    if (may_wait && may_gain && within >= placed_bytes) {
      if (us < best.us) best = {us, candidate};
      continue;
    }
    if (us < best.us) best = {us, std::move(candidate)};
    return absl::OkStatus();
  }
}

}  // namespace neap
