#include "neap/memory/search/candidate_maker.h"

#include <utility>

#include "absl/types/span.h"
#include "neap/memory/engines/gain_rule.h"

namespace neap {
namespace {

// Placement may exceed its level by one part in this many, and takes at most this many comparisons.
constexpr int64_t kLevelGap = 64;
constexpr int64_t kMaxComparisons = 1'000'000;
// Placement of short orders, which have many levels, should not exceed its level.
constexpr int64_t kMaxComparisonsOfShort = 200'000;

PlacementGoal GoalAt(int64_t limit_bytes, const SearchOrder& order) {
  if (order.is_short())
    return {.target_bytes = limit_bytes, .most_comparisons = kMaxComparisonsOfShort};
  return {.target_bytes = limit_bytes + limit_bytes / kLevelGap,
          .most_comparisons = kMaxComparisons};
}

}  // namespace

Candidate CandidateMaker::Under(const Usage& limit, const SearchOrder& order,
                                const PlacementGoal& goal) const {
  return Place(order, order.workspaces, residencies_.Under(limit, order, order.workspaces), goal);
}

std::optional<Candidate> CandidateMaker::FasterUnder(const Usage& limit, double best_us,
                                                     const SearchOrder& order,
                                                     Plan& scratch) const {
  Residency residency = residencies_.Under(limit, order, order.workspaces);
  if (floor_.IsTooSlow(order, residency, best_us, scratch)) return std::nullopt;
  return Place(order, order.workspaces, std::move(residency), {});
}

std::vector<Candidate> CandidateMaker::FasterAt(int64_t limit_bytes, double best_us,
                                                const SearchOrder& order, Plan& scratch) const {
  if (order.policy.schedule != nullptr && residencies_.may_move())
    return ScheduledAt(limit_bytes, best_us, order, scratch);
  const Usage limit = {.bytes = limit_bytes, .activation_bytes = kUnlimited};
  const Residency least = residencies_.OverlappedUnder(limit, order, order.workspaces);
  std::vector<Candidate> candidates;
  for (std::vector<int64_t>& workspaces : WorkspacesAt(limit_bytes, order, least)) {
    Residency residency = workspaces == order.workspaces
                              ? least
                              : residencies_.OverlappedUnder(limit, order, workspaces);
    if (floor_.IsTooSlow(order, residency, best_us, scratch)) continue;
    candidates.push_back(
        Place(order, std::move(workspaces), std::move(residency), GoalAt(limit_bytes, order)));
  }
  return candidates;
}

std::vector<Candidate> CandidateMaker::ScheduledAt(int64_t limit_bytes, double best_us,
                                                   const SearchOrder& order, Plan& scratch) const {
  std::vector<absl::Span<const Configuration>> configurations;
  for (const Run& run : order.liveness.runs)
    configurations.emplace_back(order.engines.Of(run).configurations);
  std::optional<Schedule> schedule =
      order.policy.schedule({.program = program_,
                             .liveness = order.liveness,
                             .configurations = configurations,
                             .bytes_per_second = order.times.bytes_per_second,
                             .capacity_bytes = limit_bytes});
  if (!schedule.has_value() || floor_.IsTooSlow(order, schedule->residency, best_us, scratch))
    return {};
  if (options_.placement != PlacementMethod::kOffline) {
    return {Place(order, std::move(schedule->workspaces), std::move(schedule->residency), {})};
  }
  return {PlaceCandidateAt(program_,
                           {.runs = order.liveness.runs,
                            .residency = std::move(schedule->residency),
                            .workspaces = std::move(schedule->workspaces)},
                           schedule->places, schedule->workspace_places)};
}

std::vector<std::vector<int64_t>> CandidateMaker::WorkspacesAt(int64_t limit_bytes,
                                                               const SearchOrder& order,
                                                               const Residency& least) const {
  const WorkspaceRule rule = options_.kernels.workspace_rule;
  if (!order.may_evict_for_workspaces || rule == WorkspaceRule::kLeftOver)
    return {order.workspaces};
  std::vector<int64_t> gain =
      WorkspacesByGain(program_, order.engines, order.times, order.eviction,
                       {order.liveness, order.workspaces, least, limit_bytes});
  if (rule == WorkspaceRule::kGain) return {std::move(gain)};
  if (gain == order.workspaces) return {order.workspaces};
  return {order.workspaces, std::move(gain)};
}

Candidate CandidateMaker::Place(const SearchOrder& order, std::vector<int64_t> workspaces,
                                Residency residency, const PlacementGoal& goal) const {
  return PlaceCandidate(program_,
                        {.runs = order.liveness.runs,
                         .residency = std::move(residency),
                         .workspaces = std::move(workspaces)},
                        options_.placement, goal);
}

absl::StatusOr<Candidate> CandidateMaker::Write(Candidate candidate, const EngineTable& engines,
                                                int64_t budget_bytes) const {
  return WriteCandidate(program_, std::move(candidate), engines, options_.placement, budget_bytes);
}

}  // namespace neap
