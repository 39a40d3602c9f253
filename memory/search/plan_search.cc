#include "neap/memory/search/plan_search.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "neap/core/base/parallel.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/plan/planner.h"
#include "neap/memory/search/plan_search_parts.h"
#include "neap/memory/search/search_rounds.h"
#include "neap/memory/search/time_bound.h"

namespace neap {
namespace {

constexpr Usage kAllEvicted = {0, 0};

// Whether the one candidate is closer to fitting than the other: it fits, or its bound is lower.
bool IsCloser(const Candidate& candidate, const Candidate& other, int64_t budget_bytes) {
  const auto rank = [&](const Candidate& of) {
    return std::pair(of.arena_bytes > budget_bytes, of.lower_bound_bytes);
  };
  return rank(candidate) < rank(other);
}

}  // namespace

PlanSearch::PlanSearch(std::unique_ptr<PlanSearchParts> parts) : parts_(std::move(parts)) {}
PlanSearch::PlanSearch(PlanSearch&&) noexcept = default;
PlanSearch& PlanSearch::operator=(PlanSearch&&) noexcept = default;
PlanSearch::~PlanSearch() = default;

absl::StatusOr<PlanSearch> PlanSearch::Create(const Program& program, const Policy& policy,
                                              const PlannerOptions& options,
                                              const DeviceDescription& device,
                                              EngineCatalog& catalog, SearchPurpose purpose) {
  auto parts = std::make_unique<PlanSearchParts>(program, policy, options, device);
  RETURN_IF_ERROR(parts->orders.AddThoseOfPolicy(catalog));
  const bool is_for_minimum = purpose == SearchPurpose::kMinimum && !parts->residencies.may_move();
  if (purpose == SearchPurpose::kPlan || is_for_minimum)
    RETURN_IF_ERROR(parts->orders.AddThoseForPlan(catalog));
  return PlanSearch(std::move(parts));
}

absl::Status PlanSearch::AddOrdersForPlan(EngineCatalog& catalog) {
  return parts_->orders.AddThoseForPlan(catalog);
}

Candidate PlanSearch::Smallest() const {
  const std::vector<const SearchOrder*> orders = parts_->orders.SmallestFrom(0);
  std::vector<Candidate> candidates(orders.size());
  EachInParallel(orders.size(), kMaxPlanningThreads, [&] {
    return [&](size_t i) { candidates[i] = parts_->candidates.Under(kAllEvicted, *orders[i]); };
  });
  return *std::min_element(
      candidates.begin(), candidates.end(),
      [](const Candidate& a, const Candidate& b) { return a.arena_bytes < b.arena_bytes; });
}

absl::StatusOr<Candidate> PlanSearch::Closest(int64_t budget_bytes, EngineCatalog& catalog) {
  std::optional<Candidate> closest = ClosestFrom(0, budget_bytes);
  if (parts_->residencies.may_move() || closest->arena_bytes <= budget_bytes)
    return *std::move(closest);
  const size_t tried = parts_->orders.all().size();
  RETURN_IF_ERROR(AddOrdersForPlan(catalog));
  std::optional<Candidate> priced = ClosestFrom(tried, budget_bytes);
  const bool is_closer = priced.has_value() && IsCloser(*priced, *closest, budget_bytes);
  return *std::move(is_closer ? priced : closest);
}

std::optional<Candidate> PlanSearch::ClosestFrom(size_t first, int64_t budget_bytes) const {
  const std::vector<const SearchOrder*> orders = parts_->orders.SmallestFrom(first);
  const PlacementGoal goal = {.limit_bytes = parts_->residencies.Capacity(budget_bytes)};
  std::atomic<bool> is_found = false;
  std::mutex mutex;
  std::optional<Candidate> closest;  // guarded by the mutex
  EachInParallel(orders.size(), kMaxPlanningThreads, [&] {
    return [&](size_t i) {
      if (is_found) return;
      Candidate smallest = parts_->candidates.Under(kAllEvicted, *orders[i], goal);
      if (smallest.arena_bytes <= budget_bytes) is_found = true;
      const std::lock_guard<std::mutex> lock(mutex);
      if (!closest.has_value() || IsCloser(smallest, *closest, budget_bytes))
        closest = std::move(smallest);
    };
  });
  return closest;
}

absl::StatusOr<Candidate> PlanSearch::Best(const Candidate& smallest, int64_t budget_bytes) const {
  ASSIGN_OR_RETURN(std::optional<Candidate> best, BestBelow(kNoTimeLimit, smallest, budget_bytes));
  return *std::move(best);
}

absl::StatusOr<std::optional<Candidate>> PlanSearch::BestBelow(double limit_us,
                                                               const Candidate& smallest,
                                                               int64_t budget_bytes) const {
  const bool needs_based = parts_->policy.needs_based();
  // Without a budget, a policy that moves tensors in any case shows its own peak.
  if (!needs_based && budget_bytes == kUnlimited) return Write(smallest, budget_bytes);
  SearchRounds rounds(*parts_, budget_bytes, limit_us);
  Candidate natural =
      needs_based ? parts_->candidates.Under(kNoLimit, parts_->orders.first()) : smallest;
  if (natural.arena_bytes <= budget_bytes && !Moves(natural)) {
    ASSIGN_OR_RETURN(natural, Write(std::move(natural), budget_bytes));
    if (!needs_based) return natural;
    rounds.Offer(natural);
  }
  RETURN_IF_ERROR(rounds.TryLadders());
  if (needs_based) RETURN_IF_ERROR(rounds.TryEnds());
  // It is the plan of the smallest budget, and may be in no ladder.
  ASSIGN_OR_RETURN(Candidate last, Write(smallest, budget_bytes));
  rounds.Offer(last);
  if (rounds.fastest().has_value() || (needs_based && limit_us < kNoTimeLimit))
    return rounds.fastest();
  return last;
}

absl::StatusOr<Candidate> PlanSearch::Write(Candidate candidate, int64_t budget_bytes) const {
  const EngineTable engines = parts_->orders.engines().For(candidate.runs);
  return parts_->candidates.Write(std::move(candidate), engines, budget_bytes);
}

double PlanSearch::TimeBoundUs(int64_t budget_bytes) const {
  const std::optional<TimePrices>& prices = parts_->orders.prices();
  if (!prices.has_value()) return 0;
  return 1e6 * LeastSeconds(parts_->program, *prices, parts_->residencies.Capacity(budget_bytes));
}

double PlanSearch::fastest_us() const { return parts_->orders.first().fastest_us; }
const LayerwiseBound& PlanSearch::layerwise() const { return parts_->residencies.layerwise(); }
double PlanSearch::engines_ms() const { return parts_->orders.engines_ms(); }

}  // namespace neap
