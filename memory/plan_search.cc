#include "neap/memory/plan_search.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>
#include <numeric>
#include <utility>

#include "neap/core/base/clock.h"
#include "neap/core/base/parallel.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/plan/cost_model.h"
#include "neap/core/plan/describe_program.h"
#include "neap/memory/engines/gain_rule.h"
#include "neap/memory/policies/policies.h"
#include "neap/memory/transfer/pool_choice.h"
#include "neap/memory/transfer/pools.h"
#include "neap/memory/transfer/waits.h"

namespace neap {
namespace {

// Placement may exceed its level by one part in this many, and takes at most this many comparisons.
constexpr int64_t kLevelGap = 64;
constexpr int64_t kMaxComparisons = 1'000'000;
// Placement of short orders, which have many levels, should not exceed its level.
constexpr int64_t kMaxComparisonsOfShort = 200'000;
// Longer programs do not try the orders of policies that offload eagerly.
constexpr size_t kMaxStepsOfEager = 12'000;

// The time of `plan`, whose actions have no waits, with the waits that its places need.
double UsWithWaits(const TimelineCosts& costs, Plan& plan) {
  std::vector<Action> actions = WithWaits(plan);
  std::swap(plan.actions, actions);
  const double us = PredictTimeline(plan, costs).total_us;
  std::swap(plan.actions, actions);
  return us;
}

// Whether the one candidate is closer to fitting than the other: it fits, or its bound is lower.
bool IsCloser(const Candidate& candidate, const Candidate& other, int64_t budget_bytes) {
  const auto rank = [&](const Candidate& of) {
    return std::pair(of.arena_bytes > budget_bytes, of.lower_bound_bytes);
  };
  return rank(candidate) < rank(other);
}

}  // namespace

absl::StatusOr<PlanSearch> PlanSearch::Create(const Program& program, const Policy& policy,
                                              const PlannerOptions& options,
                                              const DeviceDescription& device,
                                              EngineCatalog& catalog, SearchPurpose purpose) {
  PlanSearch search(program, policy, options, device);
  if (program.options.offload_params) search.OffloadParams();
  const auto start = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(search.engines_,
                   EngineTable::List(program, options.kernels, options.strict, device, catalog));
  search.engines_ms_ = MillisecondsSince(start);
  std::vector<OwnedOrder> orders;
  search.AppendOrdersOf(policy, orders);
  RETURN_IF_ERROR(search.AddOrders(std::move(orders), catalog));
  const bool is_for_minimum = purpose == SearchPurpose::kMinimum && !search.may_move();
  if (purpose == SearchPurpose::kPlan || is_for_minimum)
    RETURN_IF_ERROR(search.AddOrdersForPlan(catalog));
  return search;
}

absl::Status PlanSearch::AddOrdersForPlan(EngineCatalog& catalog) {
  if (program_->options.mode != Mode::kTraining || has_orders_for_plan_) return absl::OkStatus();
  has_orders_for_plan_ = true;
  std::vector<OwnedOrder> orders;
  const bool has_others =
      may_move() && policy_.contains_eager && program_->steps.size() <= kMaxStepsOfEager;
  for (const Policy& other : Policies()) {
    const bool is_other = other.always_moves() || other.schedule != nullptr;
    if (has_others && is_other) AppendOrdersOf(other, orders);
  }
  if (policy_.priced_orders != nullptr) {
    const auto start = std::chrono::steady_clock::now();
    ASSIGN_OR_RETURN(RebuildPrices prices, engines_.PriceReruns(*program_, catalog));
    engines_ms_ += MillisecondsSince(start);
    prices_ = {.run_seconds = prices.run_seconds,
               .rerun_seconds = prices.rerun_seconds,
               .link_bytes_per_second = MostBytesPerSecond()};
    PriceCopies(prices);
    for (RunOrder& run_order : policy_.priced_orders(*program_, prices))
      orders.push_back({std::move(run_order), policy_, /*is_priced=*/true});
  }
  return AddOrders(std::move(orders), catalog);
}

void PlanSearch::AppendOrdersOf(const Policy& policy, std::vector<OwnedOrder>& orders) const {
  for (RunOrder& run_order : policy.order_runs(*program_))
    orders.push_back({std::move(run_order), policy});
}

// An order that reruns a step for which no engine gives the same bits twice is left out. If none
// remains, that is the error.
absl::Status PlanSearch::AddOrders(std::vector<OwnedOrder> run_orders, EngineCatalog& catalog) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<bool> is_left_out;
  absl::Status refused;
  for (const OwnedOrder& owned : run_orders) {
    const absl::Status added = engines_.AddReruns(*program_, owned.order.runs, catalog);
    is_left_out.push_back(!added.ok());
    if (!added.ok() && !absl::IsFailedPrecondition(added)) return added;
    refused.Update(added);
  }
  engines_ms_ += MillisecondsSince(start);
  std::vector<std::optional<Order>> orders(run_orders.size());
  EachInParallel(run_orders.size(), kMaxPlanningThreads, [&] {
    return [&](size_t i) {
      if (!is_left_out[i]) orders[i] = MakeOrder(std::move(run_orders[i]));
    };
  });
  for (std::optional<Order>& order : orders) {
    if (!order.has_value()) continue;
    const std::vector<bool>& eager = order->eager;
    const bool moves = std::find(eager.begin(), eager.end(), true) != eager.end();
    if (order->is_priced && !moves && may_move()) {
      orders_.push_back(*order);
      order->eviction = EvictionRule::kLru;
    }
    orders_.push_back(*std::move(order));
  }
  return orders_.empty() ? refused : absl::OkStatus();
}

void PlanSearch::OffloadParams() {
  offloaded_params_ = OffloadableParams(*program_);
  for (const Tensor& tensor : program_->tensors) {
    if (offloaded_params_[tensor.id.index()]) offloaded_param_bytes_ += tensor.spec.size_bytes();
  }
}

bool PlanSearch::in_place() const {
  return options_->in_place && program_->options.accounting == Accounting::kExact;
}

// Only a needs-based policy can evict a tensor for a workspace.
bool PlanSearch::WorkspacesMayEvict(const Policy& policy) const {
  return may_move() && policy.needs_based();
}

bool PlanSearch::MayGain(const Order& order) const {
  return WorkspacesMayEvict(order.policy) && order.preferred != order.workspaces;
}

PlanSearch::Order PlanSearch::MakeOrder(OwnedOrder owned) const {
  RunOrder& run_order = owned.order;
  const EvictionRule fixed_rule = owned.policy.eviction.value_or(options_->eviction);
  Order order = {.is_priced = owned.is_priced,
                 .policy = owned.policy,
                 .eviction = owned.is_priced ? EvictionRule::kBelady : fixed_rule,
                 .engines = engines_.For(run_order.runs)};
  order.eager = run_order.moved.empty() ? order.policy.eager_tensors(*program_, run_order)
                                        : std::move(run_order.moved);
  order.times.bytes_per_second =
      std::min(transfers_.d2h_bytes_per_second, transfers_.h2d_bytes_per_second);
  for (const Run& run : run_order.runs) {
    order.workspaces.push_back(RoundUp(order.engines.Smallest(run).workspace_bytes, kBlockBytes));
    const Configuration& preferred = order.engines.Of(run).configurations.front();
    order.preferred.push_back(RoundUp(preferred.workspace_bytes, kBlockBytes));
    order.times.run_seconds.push_back(preferred.seconds);
    order.least_seconds.push_back(order.engines.LeastSeconds(run));
    order.fastest_us += 1e6 * order.least_seconds.back();
  }
  order.liveness = FindLiveness(*program_, std::move(run_order.runs), in_place());
  const Residency unmoved = Decide(order, order.workspaces, kNoLimit);
  const auto peak = std::max_element(unmoved.usage.begin(), unmoved.usage.end(),
                                     [](auto& a, auto& b) { return a.bytes < b.bytes; });
  order.copies_us = CopiesUs(unmoved);
  order.unmoved_bytes = peak->bytes;
  const ptrdiff_t peak_at = peak - unmoved.usage.begin();
  for (const Stay& stay : unmoved.stays)
    order.rounding_bytes += stay.begin <= peak_at && peak_at < stay.end ? kBlockBytes : 0;
  order.until_peak_us = 1e6 * std::accumulate(order.least_seconds.begin(),
                                              order.least_seconds.begin() + peak_at, 0.0);
  return order;
}

int64_t PlanSearch::Capacity(int64_t budget_bytes) const {
  if (budget_bytes == kUnlimited) return kUnlimited;
  return budget_bytes - PersistentBytes(*program_, offloaded_params_);
}

std::vector<const PlanSearch::Order*> PlanSearch::LikelyFirst(int64_t capacity) const {
  std::vector<const Order*> orders;
  for (const Order& order : orders_) orders.push_back(&order);
  const auto rank = [&](const Order& order) {
    return std::pair(order.unmoved_bytes > capacity, LeastUs(order, capacity));
  };
  std::stable_sort(orders.begin(), orders.end(),
                   [&](const Order* a, const Order* b) { return rank(*a) < rank(*b); });
  return orders;
}

// What a priced order reruns could as well be evicted.
std::vector<const PlanSearch::Order*> PlanSearch::SmallestOrders(size_t first) const {
  std::vector<const Order*> orders;
  for (size_t i = first; i < orders_.size(); ++i) {
    const Order& order = orders_[i];
    const bool may_be_smallest = !order.is_priced || !may_move();
    if (may_be_smallest && order.policy.name == policy_.name) orders.push_back(&order);
  }
  return orders;
}

// Limit 0: everything evictable is evicted.
Candidate PlanSearch::SmallestOf(const Order& order, const PlacementGoal& goal) const {
  return Place(order, order.workspaces, Decide(order, order.workspaces, {0, 0}), goal);
}

std::optional<Candidate> PlanSearch::ClosestOf(const std::vector<const Order*>& orders,
                                               int64_t budget_bytes) const {
  std::atomic<bool> is_found = false;
  std::mutex mutex;
  std::optional<Candidate> closest;  // guarded by the mutex
  EachInParallel(orders.size(), kMaxPlanningThreads, [&] {
    return [&](size_t i) {
      if (is_found) return;
      Candidate smallest = SmallestOf(*orders[i], {.limit_bytes = Capacity(budget_bytes)});
      if (smallest.arena_bytes <= budget_bytes) is_found = true;
      const std::lock_guard<std::mutex> lock(mutex);
      if (!closest.has_value() || IsCloser(smallest, *closest, budget_bytes))
        closest = std::move(smallest);
    };
  });
  return closest;
}

absl::StatusOr<Candidate> PlanSearch::Closest(int64_t budget_bytes, EngineCatalog& catalog) {
  std::optional<Candidate> closest = ClosestOf(SmallestOrders(), budget_bytes);
  if (may_move() || closest->arena_bytes <= budget_bytes) return *std::move(closest);
  const size_t tried = orders_.size();
  RETURN_IF_ERROR(AddOrdersForPlan(catalog));
  std::optional<Candidate> priced = ClosestOf(SmallestOrders(tried), budget_bytes);
  const bool is_closer = priced.has_value() && IsCloser(*priced, *closest, budget_bytes);
  return *std::move(is_closer ? priced : closest);
}

Candidate PlanSearch::Smallest() const {
  const std::vector<const Order*> orders = SmallestOrders();
  std::vector<Candidate> candidates(orders.size());
  EachInParallel(orders.size(), kMaxPlanningThreads,
                 [&] { return [&](size_t i) { candidates[i] = SmallestOf(*orders[i], {}); }; });
  return *std::min_element(
      candidates.begin(), candidates.end(),
      [](const Candidate& a, const Candidate& b) { return a.arena_bytes < b.arena_bytes; });
}

Residency PlanSearch::Decide(const Order& order, const std::vector<int64_t>& workspaces,
                             const Usage& limit) const {
  const Usage residency_limit = order.policy.ResidencyLimit(limit, layerwise_);
  const Evictable evictable = may_move() ? order.policy.evictable : Evictable::kNone;
  Residency residency = DecideResidency(*program_, order.liveness, workspaces,
                                        {.keep_all = order.policy.keep_all,
                                         .eager = order.eager,
                                         .offloaded_params = offloaded_params_,
                                         .evictable = evictable,
                                         .eviction = order.eviction,
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

std::vector<Candidate> PlanSearch::CandidatesAt(const Order& order, int64_t limit_bytes,
                                                double best_us, Plan& scratch) const {
  if (order.policy.schedule != nullptr && may_move())
    return ScheduledAt(order, limit_bytes, best_us, scratch);
  const Usage limit = {.bytes = limit_bytes, .activation_bytes = kUnlimited};
  PlacementGoal goal = {.target_bytes = limit_bytes + limit_bytes / kLevelGap,
                        .most_comparisons = kMaxComparisons};
  if (IsShort(order))
    goal = {.target_bytes = limit_bytes, .most_comparisons = kMaxComparisonsOfShort};
  const Residency least = DecideOverlapped(order, order.workspaces, limit);
  std::vector<Candidate> candidates;
  for (std::vector<int64_t>& workspaces : WorkspacesAt(order, least, limit)) {
    Residency residency =
        workspaces == order.workspaces ? least : DecideOverlapped(order, workspaces, limit);
    if (IsTooSlow(order, residency, best_us, scratch)) continue;
    candidates.push_back(Place(order, std::move(workspaces), std::move(residency), goal));
  }
  return candidates;
}

std::vector<Candidate> PlanSearch::ScheduledAt(const Order& order, int64_t limit_bytes,
                                               double best_us, Plan& scratch) const {
  std::vector<absl::Span<const Configuration>> configurations;
  for (const Run& run : order.liveness.runs)
    configurations.emplace_back(order.engines.Of(run).configurations);
  std::optional<Schedule> schedule =
      order.policy.schedule({.program = *program_,
                             .liveness = order.liveness,
                             .configurations = configurations,
                             .bytes_per_second = order.times.bytes_per_second,
                             .offloaded_params = offloaded_params_,
                             .capacity_bytes = limit_bytes});
  if (!schedule.has_value() || IsTooSlow(order, schedule->residency, best_us, scratch)) return {};
  if (options_->placement != "offline") {
    return {Place(order, std::move(schedule->workspaces), std::move(schedule->residency), {})};
  }
  return {PlaceCandidateAt(*program_,
                           {.runs = order.liveness.runs,
                            .residency = std::move(schedule->residency),
                            .workspaces = std::move(schedule->workspaces)},
                           schedule->places, schedule->workspace_places)};
}

std::vector<std::vector<int64_t>> PlanSearch::WorkspacesAt(const Order& order,
                                                           const Residency& least,
                                                           const Usage& limit) const {
  const WorkspaceRule rule = options_->kernels.workspace_rule;
  if (!MayGain(order) || rule == WorkspaceRule::kLeftOver) return {order.workspaces};
  std::vector<int64_t> gain =
      WorkspacesByGain(*program_, order.engines, order.times, order.eviction,
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
  const EngineTable engines = engines_.For(candidate.runs);
  return Write(std::move(candidate), engines, budget_bytes);
}

absl::StatusOr<Candidate> PlanSearch::Write(Candidate candidate, const EngineTable& engines,
                                            int64_t budget_bytes) const {
  return WriteCandidate(*program_, std::move(candidate), engines, options_->placement,
                        budget_bytes);
}

double PlanSearch::PredictedUs(const Candidate& candidate, double best_us, Plan& scratch) const {
  TimelineCosts costs = transfers_;
  costs.compute_seconds = candidate.written.compute_seconds;
  const double least_us = PoolsApartUs(candidate.written.actions, costs, scratch);
  if (least_us >= best_us || !Copies(candidate)) return least_us;
  if (Moves(candidate)) {
    LayOutPools(scratch);
    if (scratch.host_pool_bytes > options_->host_budget_bytes) return kNoTimeLimit;
  }
  return UsWithWaits(costs, scratch);
}

double PlanSearch::PoolsApartUs(std::vector<Action> actions, TimelineCosts costs,
                                Plan& scratch) const {
  costs.slowdown_by_offloads = costs.slowdown_by_prefetches = 0;
  costs.slowdown_by_sums = costs.doubled_by_sums_seconds = 0;
  scratch.actions = std::move(actions);
  ChoosePools(options_->peer_budget_bytes, scratch);
  LayOutApart(scratch);
  return UsWithWaits(costs, scratch);
}

}  // namespace neap
