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

// Levels of memory that are tried, besides those close to the least: many where that is quick.
constexpr int64_t kMostLevels = 16;
constexpr int64_t kFewestLevels = 3;
constexpr int64_t kMostRuns = 100'000;           // of all levels
constexpr int64_t kGoodEnough = 64;              // one part in so many may be gaps between places
constexpr int64_t kMostComparisons = 1'000'000;  // of placement, at each
constexpr double kNoTime = std::numeric_limits<double>::infinity();

std::vector<Recomputation> Recomputations(const Policy& policy) {
  if (!policy.needs_based() || policy.recomputation == Recomputation::kNone)
    return {policy.recomputation};
  return {Recomputation::kNone, policy.recomputation};
}

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

bool Moves(const Draft& draft) {
  return std::any_of(draft.residency.stays.begin(), draft.residency.stays.end(),
                     [](const Stay& stay) { return stay.offload_after.has_value(); });
}

}  // namespace

absl::StatusOr<Drafter> Drafter::Create(const Program& program, const Policy& policy,
                                        const PlannerOptions& options,
                                        const DeviceDescription& device, EngineCatalog& catalog) {
  Drafter drafter(program, policy, options, device);
  if (options.offload_params) drafter.travels_ = Travellers(program);
  std::vector<RunOrder> run_orders;
  for (Recomputation recomputation : Recomputations(policy))
    run_orders.push_back(OrderRuns(program, recomputation));
  const auto start = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(drafter.engines_,
                   EngineTable::List(program, options.kernels, options.strict, device, catalog));
  for (const RunOrder& run_order : run_orders)
    RETURN_IF_ERROR(drafter.engines_.AddReruns(program, run_order.runs, catalog));
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  drafter.engines_ms_ = elapsed.count();
  for (RunOrder& run_order : run_orders)
    drafter.orders_.push_back(drafter.MakeOrder(std::move(run_order)));
  return drafter;
}

bool Drafter::in_place() const {
  return options_->in_place && program_->options.accounting == Accounting::kExact;
}

Drafter::Order Drafter::MakeOrder(RunOrder run_order) const {
  Order order;
  order.eager = EagerTensors(*program_, policy_.eager, run_order.checkpoints);
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
  if (policy_.needs_based()) return order;  // with a limit of nothing, all that can leaves
  order.smallest_limit = {kUnlimited, kUnlimited};
  if (policy_.to_layerwise_bound) order.smallest_limit.activation_bytes = layerwise_.bytes;
  return order;
}

absl::StatusOr<Draft> Drafter::Smallest() const {
  ASSIGN_OR_RETURN(Draft best, SmallestOf(orders_.front()));
  for (size_t i = 1; i < orders_.size(); ++i) {
    ASSIGN_OR_RETURN(Draft draft, SmallestOf(orders_[i]));
    if (draft.arena_bytes < best.arena_bytes) best = std::move(draft);
  }
  return best;
}

absl::StatusOr<Draft> Drafter::Best(const Draft& smallest) const {
  Plan scratch = DescribeProgram(*program_, travels_, *device_);
  std::optional<Timed> best;
  if (!policy_.needs_based()) {
    if (options_->budget_bytes == kUnlimited || !Moves(smallest)) return smallest;
  } else {
    const Order& plain = orders_.front();
    Residency all = Decide(plain, plain.workspaces, {kUnlimited, kUnlimited});
    ASSIGN_OR_RETURN(Draft natural, Place(plain, plain.workspaces, std::move(all), {}));
    if (natural.arena_bytes <= options_->budget_bytes && !Moves(natural)) {
      // Unless workspace is worth more than what it would drive out.
      if (options_->kernels.timings == nullptr) return natural;
      ASSIGN_OR_RETURN(const double us, PredictedUs(natural, kNoTime, scratch));
      best = Timed{std::move(natural), us};
    }
  }
  for (const Order& order : orders_) RETURN_IF_ERROR(TryLevels(order, scratch, best));
  return best.has_value() ? std::move(best->draft) : smallest;
}

absl::StatusOr<Draft> Drafter::SmallestOf(const Order& order) const {
  return Place(order, order.workspaces, Decide(order, order.workspaces, order.smallest_limit), {});
}

bool Drafter::MayGain(const Order& order) const {
  return policy_.needs_based() && options_->kernels.timings != nullptr &&
         order.preferred != order.workspaces;
}

std::vector<std::vector<int64_t>> Drafter::WorkspacesAt(const Order& order, const Residency& least,
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

Residency Drafter::Decide(const Order& order, const std::vector<int64_t>& workspaces,
                          const Usage& limit) const {
  Residency residency = DecideResidency(
      *program_, order.liveness, workspaces,
      {.keep_all = policy_.keep_all,
       .eager = order.eager,
       .travels = travels_,
       .may_leave = policy_.may_leave,
       .eviction =
           policy_.may_leave == MayLeave::kOnlyCopied ? EvictionRule::kBelady : options_->eviction,
       .limit = limit});
  if (policy_.eager != Eager::kNone)
    FetchOneConvolutionAhead(*program_, order.liveness, limit, residency);
  return residency;
}

Residency Drafter::DecideAt(const Order& order, const std::vector<int64_t>& workspaces,
                            const Usage& limit) const {
  Residency residency =
      Decide(order, workspaces, policy_.needs_based() ? limit : order.smallest_limit);
  OverlapTransfers(*program_, order.times, limit, residency);
  return residency;
}

absl::StatusOr<Draft> Drafter::Place(const Order& order, std::vector<int64_t> workspaces,
                                     Residency residency, const PlacementGoal& goal) const {
  return PlaceDraft(*program_,
                    {.runs = order.liveness.runs,
                     .residency = std::move(residency),
                     .workspaces = std::move(workspaces)},
                    engines_, options_->placement, goal);
}

int64_t Drafter::BytesToKeepAll(const Order& order, const std::vector<int64_t>& workspaces) const {
  return MostBytes(DecideAt(order, workspaces, {kUnlimited, kUnlimited}));
}

std::vector<int64_t> Drafter::Levels(const Order& order) const {
  const int64_t least = MostBytes(Decide(order, order.workspaces, order.smallest_limit));
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
  // Below the least not everything can be kept: that leaves room for gaps between places.
  for (double part : {1.02, 1.0, 0.97, 0.93, 0.85, 0.7, 0.5})
    levels.push_back(static_cast<int64_t>(static_cast<double>(least) * part));
  std::sort(levels.begin(), levels.end(), std::greater<>());
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  return levels;
}

absl::Status Drafter::TryLevels(const Order& order, Plan& scratch,
                                std::optional<Timed>& best) const {
  const int64_t budget_bytes = options_->budget_bytes;
  const int64_t capacity =
      budget_bytes == kUnlimited ? kUnlimited : budget_bytes - PersistentBytes(*program_, travels_);
  for (int64_t level : Levels(order)) {
    if (best.has_value() && best->us <= orders_.front().fastest_us) break;
    if (level > capacity) continue;
    const Usage limit = {.bytes = level, .activation_bytes = kUnlimited};
    const PlacementGoal goal = {.target_bytes = level + level / kGoodEnough,
                                .most_comparisons = kMostComparisons};
    const Residency least = DecideAt(order, order.workspaces, limit);
    for (std::vector<int64_t>& workspaces : WorkspacesAt(order, least, limit)) {
      Residency residency =
          workspaces == order.workspaces ? least : DecideAt(order, workspaces, limit);
      ASSIGN_OR_RETURN(Draft draft,
                       Place(order, std::move(workspaces), std::move(residency), goal));
      if (draft.arena_bytes > budget_bytes) continue;
      const double best_us = best.has_value() ? best->us : kNoTime;
      ASSIGN_OR_RETURN(const double us, PredictedUs(draft, best_us, scratch));
      const bool moves = Moves(draft);
      if (us < best_us) best = Timed{std::move(draft), us};
      // With less memory, more would have to move; workspaces may be worth it where times tell.
      if (!moves && options_->kernels.timings == nullptr) return absl::OkStatus();
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<double> Drafter::PredictedUs(const Draft& draft, double best_us,
                                            Plan& scratch) const {
  ASSIGN_OR_RETURN(WalkResult walk, WalkDraft(*program_, draft, engines_, options_->placement,
                                              options_->budget_bytes));
  scratch.actions = std::move(walk.actions);
  ChoosePools(options_->peer_budget_bytes, scratch);
  TimelineCosts costs = transfers_;
  costs.compute_seconds = std::move(walk.compute_seconds);
  LayOutApart(scratch);
  const double least_us = UsWithWaits(costs, scratch);
  if (least_us >= best_us || !Moves(draft)) return least_us;
  LayOutPools(scratch);
  return UsWithWaits(costs, scratch);
}

}  // namespace neap
