// The rounds of the plan search: candidates that are tried side by side.
#include <algorithm>
#include <cmath>
#include <deque>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "neap/core/base/parallel.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/plan/describe_program.h"
#include "neap/core/plan/planner.h"
#include "neap/memory/plan_search.h"

namespace neap {
namespace {

// Rounds become longer: there is nothing to compare the first candidates to. Those of short orders
// stay shorter, because one candidate soon rules out others.
constexpr size_t kMinOfRound = 2, kMaxOfRound = 8, kMaxOfShortRound = 4;
// The orders whose ladders are made side by side; later ones may turn out not to be needed.
constexpr size_t kMaxOfLadders = 4;
// The levels that are tried one after another, as one part of a round, walk over so many runs.
constexpr size_t kRunsOfPart = 5'000;
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

}  // namespace

absl::StatusOr<Candidate> PlanSearch::Best(const Candidate& smallest, int64_t budget_bytes) const {
  ASSIGN_OR_RETURN(std::optional<Candidate> best, BestBelow(kNoTimeLimit, smallest, budget_bytes));
  return *std::move(best);
}

absl::StatusOr<std::optional<Candidate>> PlanSearch::BestBelow(double limit_us,
                                                               const Candidate& smallest,
                                                               int64_t budget_bytes) const {
  // Without a budget, a policy that moves tensors in any case shows its own peak.
  if (!policy_.needs_based() && budget_bytes == kUnlimited) return Write(smallest, budget_bytes);
  const Order& first = orders_.front();
  Candidate natural = policy_.needs_based() ? Place(first, first.workspaces,
                                                    Decide(first, first.workspaces, kNoLimit), {})
                                            : smallest;
  Fastest best = {.us = limit_us};
  Plan scratch = DescribeProgram(*program_, offloaded_params_, *device_);
  if (natural.arena_bytes <= budget_bytes && !Moves(natural)) {
    const EngineTable engines = engines_.For(natural.runs);
    ASSIGN_OR_RETURN(natural, Write(std::move(natural), engines, budget_bytes));
    if (!policy_.needs_based()) return natural;
    const double us = PredictedUs(natural, kNoTimeLimit, scratch);
    if (us < limit_us) best = {us, std::move(natural)};
  }
  RETURN_IF_ERROR(TryLadders(budget_bytes, best));
  if (policy_.needs_based()) RETURN_IF_ERROR(TryEnds(budget_bytes, best));
  // It is the plan of the smallest budget, and may be in no ladder.
  ASSIGN_OR_RETURN(Candidate last, Write(smallest, budget_bytes));
  const double us = PredictedUs(last, best.us, scratch);
  if (us < best.us) best = {us, last};
  if (best.candidate.has_value() || (policy_.needs_based() && limit_us < kNoTimeLimit))
    return std::move(best.candidate);
  return last;
}

size_t PlanSearch::MostOfRound() const {
  return IsShort(orders_.front()) ? kMaxOfShortRound : kMaxOfRound;
}

absl::Status PlanSearch::TryRound(size_t parts, TryPart try_part, Fastest& best) const {
  std::vector<Fastest> found(parts, Fastest{.us = best.us});
  std::vector<absl::Status> tried(parts);
  EachInParallel(parts, kMaxPlanningThreads, [&] {
    Plan scratch = DescribeProgram(*program_, offloaded_params_, *device_);
    return [&, scratch = std::move(scratch)](size_t i) mutable {
      tried[i] = try_part(i, scratch, found[i]);
    };
  });
  for (size_t i = 0; i < parts; ++i) {
    RETURN_IF_ERROR(tried[i]);
    if (found[i].us < best.us) best = std::move(found[i]);
  }
  return absl::OkStatus();
}

absl::Status PlanSearch::TryLadders(int64_t budget_bytes, Fastest& best) const {
  const std::vector<const Order*> orders = LikelyFirst(Capacity(budget_bytes));
  size_t next = 0;
  std::deque<Rungs> rungs;  // of the orders before `next`, still to be tried
  const size_t most_of_round = MostOfRound();
  size_t vain_parts = 0;  // since the last gain of that part, or the first candidate
  const bool is_short = IsShort(orders_.front());
  const bool is_limited = !best.candidate.has_value() && !std::isinf(best.us);
  double us_at_gain = best.us;
  for (size_t of_round = std::min(kMinOfRound, most_of_round);;
       of_round = std::min(2 * of_round, most_of_round)) {
    std::erase_if(rungs, [&](const Rungs& part) { return part.least_us >= best.us; });
    while (rungs.size() < of_round && next < orders.size()) {
      const size_t count = std::min(kMaxOfLadders, orders.size() - next);
      for (std::vector<Rungs>& parts :
           RungsOf({orders.data() + next, count}, budget_bytes, best.us))
        std::move(parts.begin(), parts.end(), std::back_inserter(rungs));
      next += count;
    }
    if (rungs.empty()) return absl::OkStatus();
    const size_t count = std::min(of_round, rungs.size());
    const auto try_part = [&](size_t i, Plan& scratch, Fastest& fastest) {
      return TryRungs(rungs[i], budget_bytes, scratch, fastest);
    };
    RETURN_IF_ERROR(TryRound(count, try_part, best));
    vain_parts += count;
    if (std::isinf(best.us) || best.us <= (1 - kMinGainOfParts) * us_at_gain) {
      vain_parts = 0;
      us_at_gain = best.us;
    }
    if (options_->quick && vain_parts >= kMaxVainPartsOfQuick) return absl::OkStatus();
    if (is_limited && !is_short && vain_parts >= kMaxVainParts) return absl::OkStatus();
    rungs.erase(rungs.begin(), rungs.begin() + static_cast<ptrdiff_t>(count));
  }
}

std::vector<std::vector<PlanSearch::Rungs>> PlanSearch::RungsOf(
    absl::Span<const Order* const> orders, int64_t budget_bytes, double best_us) const {
  const int64_t capacity = Capacity(budget_bytes);
  std::vector<std::vector<Rungs>> rungs(orders.size());
  EachInParallel(orders.size(), kMaxPlanningThreads, [&] {
    return [&](size_t i) {
      const Order& order = *orders[i];
      const double least_us = LeastUs(order, capacity);
      if (least_us >= best_us) return;
      const size_t most = std::max(kRunsOfPart / order.liveness.runs.size(), size_t{1});
      for (const int64_t limit_bytes : Ladder(order)) {
        if (limit_bytes > capacity) continue;
        if (rungs[i].empty() || rungs[i].back().limits.size() == most)
          rungs[i].push_back({.order = &order, .least_us = least_us});
        rungs[i].back().limits.push_back(limit_bytes);
      }
    };
  });
  return rungs;
}

absl::Status PlanSearch::TryRungs(const Rungs& rungs, int64_t budget_bytes, Plan& scratch,
                                  Fastest& best) const {
  const Order& order = *rungs.order;
  for (const int64_t limit_bytes : rungs.limits) {
    if (best.us <= rungs.least_us) break;
    for (Candidate& candidate : CandidatesAt(order, limit_bytes, best.us, scratch))
      RETURN_IF_ERROR(Consider(order, std::move(candidate), budget_bytes, scratch, best));
  }
  return absl::OkStatus();
}

absl::Status PlanSearch::TryEnds(int64_t budget_bytes, Fastest& best) const {
  std::vector<std::pair<const Order*, Usage>> ends;
  for (const Order& order : orders_) {
    if (order.is_priced) continue;
    ends.emplace_back(&order, kNoLimit);
    if (may_move()) ends.emplace_back(&order, Usage{});
  }
  const auto try_part = [&](size_t i, Plan& scratch, Fastest& fastest) -> absl::Status {
    const Order& order = *ends[i].first;
    Residency residency = Decide(order, order.workspaces, ends[i].second);
    if (IsTooSlow(order, residency, fastest.us, scratch)) return absl::OkStatus();
    return Consider(order, Place(order, order.workspaces, std::move(residency), {}), budget_bytes,
                    scratch, fastest);
  };
  for (size_t begin = 0; begin < ends.size(); begin += MostOfRound()) {
    const auto try_next = [&](size_t i, Plan& scratch, Fastest& fastest) {
      return try_part(begin + i, scratch, fastest);
    };
    RETURN_IF_ERROR(TryRound(std::min(MostOfRound(), ends.size() - begin), try_next, best));
  }
  return absl::OkStatus();
}

absl::Status PlanSearch::Consider(const Order& order, Candidate candidate, int64_t budget_bytes,
                                  Plan& scratch, Fastest& best) const {
  if (candidate.arena_bytes > budget_bytes) return absl::OkStatus();
  if (LeastUs(order, Capacity(candidate.arena_bytes)) >= best.us) return absl::OkStatus();
  // A workspace in bytes that are left over may have to wait for a copy that still uses them. In
  // fewer bytes, one step after another gets a smaller workspace, and its runs take longer.
  const int64_t placed_bytes = candidate.arena_bytes;
  const bool may_wait = Copies(candidate);
  int64_t within = budget_bytes;
  for (;;) {
    ASSIGN_OR_RETURN(candidate, Write(std::move(candidate), order.engines, within));
    const double us = PredictedUs(candidate, best.us, scratch);
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
