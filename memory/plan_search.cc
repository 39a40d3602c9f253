#include "neap/memory/plan_search.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/plan/cost_model.h"
#include "neap/core/plan/describe_program.h"
#include "neap/memory/engines/gain_rule.h"
#include "neap/memory/transfer/pool_choice.h"
#include "neap/memory/transfer/pools.h"
#include "neap/memory/transfer/waits.h"

namespace neap {
namespace {

// The levels between the ends of the ladder, on each of two scales. Long sequences have fewer, so
// that all levels together walk over about kMostRuns runs.
constexpr int64_t kMostLevels = 16;
constexpr int64_t kFewestLevels = 3;
constexpr int64_t kMostRuns = 100'000;
// The levels around the minimum, as parts of it.
constexpr double kPartsOfMinimum[] = {1.02, 1.0, 0.97, 0.93, 0.85, 0.7, 0.5};
// Placement may exceed its level by one part in this many, and takes at most this many comparisons.
constexpr int64_t kLevelGap = 64;
constexpr int64_t kMostComparisons = 1'000'000;
constexpr double kNoTime = std::numeric_limits<double>::infinity();

int64_t MostBytes(const Residency& residency) {
  int64_t most = 0;
  for (const Usage& usage : residency.usage) most = std::max(most, usage.bytes);
  return most;
}

// The time of `plan`, whose actions have no waits, with the waits that its places need.
double UsWithWaits(const TimelineCosts& costs, Plan& plan) {
  std::vector<Action> actions = WithWaits(plan);
  std::swap(plan.actions, actions);
  const double us = PredictTimeline(plan, costs).total_us;
  std::swap(plan.actions, actions);
  return us;
}

// Whether a tensor is offloaded.
bool Moves(const Candidate& candidate) {
  return std::any_of(candidate.residency.stays.begin(), candidate.residency.stays.end(),
                     [](const Stay& stay) { return stay.offload_at.has_value(); });
}

}  // namespace

absl::StatusOr<PlanSearch> PlanSearch::Create(const Program& program, const Policy& policy,
                                              const PlannerOptions& options,
                                              const DeviceDescription& device,
                                              EngineCatalog& catalog) {
  PlanSearch search(program, policy, options, device);
  if (options.offload_params) search.offloaded_params_ = OffloadableParams(program);
  std::vector<RunOrder> run_orders = policy.order_runs(program);
  const auto start = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(search.engines_,
                   EngineTable::List(program, options.kernels, options.strict, device, catalog));
  for (const RunOrder& run_order : run_orders)
    RETURN_IF_ERROR(search.engines_.AddReruns(program, run_order.runs, catalog));
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  search.engines_ms_ = elapsed.count();
  for (RunOrder& run_order : run_orders)
    search.orders_.push_back(search.MakeOrder(std::move(run_order)));
  return search;
}

bool PlanSearch::in_place() const {
  return options_->in_place && program_->options.accounting == Accounting::kExact;
}

// A workspace is worth more than a tensor only where measured times tell, and only a needs-based
// policy can evict the tensor.
bool PlanSearch::WorkspacesMayEvict() const {
  return policy_.needs_based() && options_->kernels.timings != nullptr;
}

bool PlanSearch::MayGain(const Order& order) const {
  return WorkspacesMayEvict() && order.preferred != order.workspaces;
}

PlanSearch::Order PlanSearch::MakeOrder(RunOrder run_order) const {
  Order order;
  order.eager = policy_.eager_tensors(*program_, run_order);
  order.times.bytes_per_second =
      std::min(transfers_.d2h_bytes_per_second, transfers_.h2d_bytes_per_second);
  for (const Run& run : run_order.runs) {
    order.workspaces.push_back(RoundUp(engines_.Smallest(run).workspace_bytes, kBlockBytes));
    const Configuration& preferred = engines_.Of(run).configurations.front();
    order.preferred.push_back(RoundUp(preferred.workspace_bytes, kBlockBytes));
    order.times.run_seconds.push_back(preferred.seconds);
    order.fastest_us += 1e6 * preferred.seconds;
  }
  order.liveness = FindLiveness(*program_, std::move(run_order.runs), in_place());
  return order;
}

// Limit 0: everything evictable is evicted.
Candidate PlanSearch::Smallest() const {
  std::optional<Candidate> smallest;
  for (const Order& order : orders_) {
    Candidate candidate =
        Place(order, order.workspaces, Decide(order, order.workspaces, {0, 0}), {});
    if (!smallest.has_value() || candidate.arena_bytes < smallest->arena_bytes)
      smallest = std::move(candidate);
  }
  return *std::move(smallest);
}

absl::StatusOr<Candidate> PlanSearch::Best(const Candidate& smallest, int64_t budget_bytes) const {
  // Without a budget, a policy that moves tensors in any case shows its own peak.
  if (!policy_.needs_based() && budget_bytes == kUnlimited) return Write(smallest, budget_bytes);
  const Order& first = orders_.front();
  Candidate natural = policy_.needs_based() ? Place(first, first.workspaces,
                                                    Decide(first, first.workspaces, kNoLimit), {})
                                            : smallest;
  Plan scratch = DescribeProgram(*program_, offloaded_params_, *device_);
  std::optional<Candidate> best;
  if (natural.arena_bytes <= budget_bytes && !Moves(natural)) {
    ASSIGN_OR_RETURN(natural, Write(std::move(natural), budget_bytes));
    if (!WorkspacesMayEvict()) return natural;
    natural.predicted_us = PredictedUs(natural, kNoTime, scratch);
    best = std::move(natural);
  }
  for (const Order& order : orders_) RETURN_IF_ERROR(TryLadder(order, budget_bytes, scratch, best));
  return best.has_value() ? *std::move(best) : Write(smallest, budget_bytes);
}

Residency PlanSearch::Decide(const Order& order, const std::vector<int64_t>& workspaces,
                             const Usage& limit) const {
  const Usage residency_limit = policy_.ResidencyLimit(limit, layerwise_);
  Residency residency = DecideResidency(*program_, order.liveness, workspaces,
                                        {.keep_all = policy_.keep_all,
                                         .eager = order.eager,
                                         .offloaded_params = offloaded_params_,
                                         .evictable = policy_.evictable,
                                         .eviction = policy_.eviction.value_or(options_->eviction),
                                         .limit = residency_limit});
  if (!order.eager.empty())
    FetchOneConvolutionAhead(*program_, order.liveness, residency_limit, residency);
  return residency;
}

Residency PlanSearch::DecideOverlapped(const Order& order, const std::vector<int64_t>& workspaces,
                                       const Usage& limit) const {
  Residency residency = Decide(order, workspaces, limit);
  OverlapTransfers(*program_, order.times, limit, residency);
  return residency;
}

int64_t PlanSearch::BytesToKeepAll(const Order& order,
                                   const std::vector<int64_t>& workspaces) const {
  return MostBytes(DecideOverlapped(order, workspaces, kNoLimit));
}

std::vector<int64_t> PlanSearch::Ladder(const Order& order) const {
  const int64_t least = MostBytes(Decide(order, order.workspaces, {0, 0}));
  const auto count = std::clamp<int64_t>(
      kMostRuns / static_cast<int64_t>(order.liveness.runs.size()), kFewestLevels, kMostLevels);
  std::vector<int64_t> levels;
  const auto add_up_to = [&](int64_t most) {
    const double step = std::pow(static_cast<double>(most) / static_cast<double>(least),
                                 1.0 / static_cast<double>(count));
    levels.push_back(most);
    for (int64_t i = 1; i < count; ++i) {
      levels.push_back(most - (most - least) / count * i);
      levels.push_back(static_cast<int64_t>(static_cast<double>(least) * std::pow(step, i)));
    }
  };
  add_up_to(BytesToKeepAll(order, order.workspaces));
  if (MayGain(order)) add_up_to(BytesToKeepAll(order, order.preferred));
  for (double part : kPartsOfMinimum)
    levels.push_back(static_cast<int64_t>(static_cast<double>(least) * part));
  std::sort(levels.begin(), levels.end(), std::greater<>());
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  return levels;
}

absl::Status PlanSearch::TryLadder(const Order& order, int64_t budget_bytes, Plan& scratch,
                                   std::optional<Candidate>& best) const {
  const int64_t capacity = budget_bytes == kUnlimited
                               ? kUnlimited
                               : budget_bytes - PersistentBytes(*program_, offloaded_params_);
  for (const int64_t limit_bytes : Ladder(order)) {
    if (best.has_value() && best->predicted_us <= orders_.front().fastest_us) break;
    if (limit_bytes > capacity) continue;
    for (Candidate& candidate : CandidatesAt(order, limit_bytes)) {
      if (candidate.arena_bytes > budget_bytes) continue;
      ASSIGN_OR_RETURN(candidate, Write(std::move(candidate), budget_bytes));
      const double best_us = best.has_value() ? best->predicted_us : kNoTime;
      candidate.predicted_us = PredictedUs(candidate, best_us, scratch);
      const bool moves = Moves(candidate);
      if (candidate.predicted_us < best_us) best = std::move(candidate);
      // Under a lower limit tensors would have to move, which only a workspace could be worth.
      if (!moves && !WorkspacesMayEvict()) return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

std::vector<Candidate> PlanSearch::CandidatesAt(const Order& order, int64_t limit_bytes) const {
  const Usage limit = {.bytes = limit_bytes, .activation_bytes = kUnlimited};
  const PlacementGoal goal = {.target_bytes = limit_bytes + limit_bytes / kLevelGap,
                              .most_comparisons = kMostComparisons};
  const Residency least = DecideOverlapped(order, order.workspaces, limit);
  std::vector<Candidate> candidates;
  for (std::vector<int64_t>& workspaces : WorkspacesAt(order, least, limit)) {
    Residency residency =
        workspaces == order.workspaces ? least : DecideOverlapped(order, workspaces, limit);
    candidates.push_back(Place(order, std::move(workspaces), std::move(residency), goal));
  }
  return candidates;
}

std::vector<std::vector<int64_t>> PlanSearch::WorkspacesAt(const Order& order,
                                                           const Residency& least,
                                                           const Usage& limit) const {
  const WorkspaceRule rule = options_->kernels.workspace_rule;
  if (!MayGain(order) || rule == WorkspaceRule::kLeftOver) return {order.workspaces};
  std::vector<int64_t> gain =
      WorkspacesByGain(*program_, engines_, order.times, options_->eviction,
                       {order.liveness, order.workspaces, least, limit.bytes});
  if (rule == WorkspaceRule::kGain) return {std::move(gain)};
  if (gain == order.workspaces) return {order.workspaces};
  return {order.workspaces, std::move(gain)};
}

Candidate PlanSearch::Place(const Order& order, std::vector<int64_t> workspaces,
                            Residency residency, const PlacementGoal& goal) const {
  return PlaceCandidate(*program_,
                        {.runs = order.liveness.runs,
                         .residency = std::move(residency),
                         .workspaces = std::move(workspaces)},
                        options_->placement, goal);
}

absl::StatusOr<Candidate> PlanSearch::Write(Candidate candidate, int64_t budget_bytes) const {
  return WriteCandidate(*program_, std::move(candidate), engines_, options_->placement,
                        budget_bytes);
}

double PlanSearch::PredictedUs(const Candidate& candidate, double best_us, Plan& scratch) const {
  scratch.actions = candidate.written.actions;
  ChoosePools(options_->peer_budget_bytes, scratch);
  TimelineCosts costs = transfers_;
  costs.compute_seconds = candidate.written.compute_seconds;
  LayOutApart(scratch);
  const double least_us = UsWithWaits(costs, scratch);
  if (least_us >= best_us || !Moves(candidate)) return least_us;
  LayOutPools(scratch);
  return UsWithWaits(costs, scratch);
}

}  // namespace neap
