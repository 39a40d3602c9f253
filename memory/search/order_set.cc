#include "neap/memory/search/order_set.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <utility>

#include "neap/core/base/clock.h"
#include "neap/core/base/parallel.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/plan/cost_model.h"
#include "neap/core/plan/planner.h"
#include "neap/memory/policies/policies.h"

namespace neap {
namespace {

// Longer programs do not try the orders of policies that offload eagerly.
constexpr size_t kMaxStepsOfEager = 12'000;

bool MovesEagerly(const SearchOrder& order) {
  return std::find(order.eager.begin(), order.eager.end(), true) != order.eager.end();
}

}  // namespace

OrderSet::OrderSet(const Program& program, const Policy& policy, const PlannerOptions& options,
                   const DeviceDescription& device, const Residencies& residencies,
                   const TimeFloor& floor)
    : program_(program),
      policy_(policy),
      options_(options),
      device_(device),
      residencies_(residencies),
      floor_(floor),
      transfers_(TransferCosts(device)) {}

absl::Status OrderSet::AddThoseOfPolicy(EngineCatalog& catalog) {
  const auto start = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(
      engines_, EngineTable::List(program_, options_.kernels, options_.strict, device_, catalog));
  engines_ms_ = MillisecondsSince(start);
  std::vector<OwnedOrder> orders;
  AppendOrdersOf(policy_, orders);
  return Add(std::move(orders), catalog);
}

absl::Status OrderSet::AddThoseForPlan(EngineCatalog& catalog) {
  if (program_.options.mode != Mode::kTraining || has_all_) return absl::OkStatus();
  has_all_ = true;
  std::vector<OwnedOrder> orders;
  const bool has_others = residencies_.may_move() && policy_.contains_eager &&
                          program_.steps.size() <= kMaxStepsOfEager;
  for (const Policy& other : Policies()) {
    const bool is_other = other.always_moves() || other.schedule != nullptr;
    if (has_others && is_other) AppendOrdersOf(other, orders);
  }
  if (policy_.priced_orders != nullptr) RETURN_IF_ERROR(AppendPricedOrders(catalog, orders));
  return Add(std::move(orders), catalog);
}

void OrderSet::AppendOrdersOf(const Policy& policy, std::vector<OwnedOrder>& orders) const {
  for (RunOrder& run_order : policy.order_runs(program_))
    orders.push_back({std::move(run_order), policy});
}

absl::Status OrderSet::AppendPricedOrders(EngineCatalog& catalog, std::vector<OwnedOrder>& orders) {
  const auto start = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(RebuildPrices prices, engines_.PriceReruns(program_, catalog));
  engines_ms_ += MillisecondsSince(start);
  prices_ = {.run_seconds = prices.run_seconds,
             .rerun_seconds = prices.rerun_seconds,
             .link_bytes_per_second = floor_.link_bytes_per_second()};
  PriceCopies(prices);
  for (RunOrder& run_order : policy_.priced_orders(program_, prices))
    orders.push_back({std::move(run_order), policy_, /*is_priced=*/true});
  return absl::OkStatus();
}

// By the host's link, so that a peer only adds faster copies to the same orders.
void OrderSet::PriceCopies(RebuildPrices& prices) const {
  if (!residencies_.may_move()) return;
  const double bytes_per_second =
      std::min(transfers_.d2h_bytes_per_second, transfers_.h2d_bytes_per_second);
  if (bytes_per_second > 0) prices.copy_seconds_per_byte = 1 / bytes_per_second;
  prices.slowdown_by_copies_out = transfers_.slowdown_by_offloads;
  prices.slowdown_by_copies_back = transfers_.slowdown_by_prefetches;
}

// If all orders are left out, that is the error. A priced order that moves nothing in any case is
// there with both rules of eviction.
absl::Status OrderSet::Add(std::vector<OwnedOrder> run_orders, EngineCatalog& catalog) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<bool> is_left_out;
  absl::Status refused;
  for (const OwnedOrder& owned : run_orders) {
    const absl::Status added = engines_.AddReruns(program_, owned.order.runs, catalog);
    is_left_out.push_back(!added.ok());
    if (!added.ok() && !absl::IsFailedPrecondition(added)) return added;
    refused.Update(added);
  }
  engines_ms_ += MillisecondsSince(start);
  std::vector<std::optional<SearchOrder>> orders(run_orders.size());
  EachInParallel(run_orders.size(), kMaxPlanningThreads, [&] {
    return [&](size_t i) {
      if (!is_left_out[i]) orders[i] = Make(std::move(run_orders[i]));
    };
  });
  for (std::optional<SearchOrder>& order : orders) {
    if (!order.has_value()) continue;
    if (order->is_priced && !MovesEagerly(*order) && residencies_.may_move()) {
      orders_.push_back(*order);
      order->eviction = EvictionRule::kLru;
    }
    orders_.push_back(*std::move(order));
  }
  return orders_.empty() ? refused : absl::OkStatus();
}

SearchOrder OrderSet::Make(OwnedOrder owned) const {
  RunOrder& run_order = owned.order;
  const EvictionRule fixed_rule = owned.policy.eviction.value_or(options_.eviction);
  SearchOrder order = {.is_priced = owned.is_priced,
                       .policy = owned.policy,
                       .eviction = owned.is_priced ? EvictionRule::kBelady : fixed_rule,
                       .engines = engines_.For(run_order.runs)};
  order.eager = run_order.moved.empty() ? order.policy.eager_tensors(program_, run_order)
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
  // Only a needs-based policy can evict a tensor for a workspace.
  order.may_evict_for_workspaces =
      residencies_.may_move() && order.policy.needs_based() && order.preferred != order.workspaces;
  order.liveness = FindLiveness(program_, std::move(run_order.runs), residencies_.in_place());
  MeasureUnmoved(order);
  return order;
}

void OrderSet::MeasureUnmoved(SearchOrder& order) const {
  const Residency unmoved = residencies_.Under(kNoLimit, order, order.workspaces);
  const auto peak = std::max_element(unmoved.usage.begin(), unmoved.usage.end(),
                                     [](auto& a, auto& b) { return a.bytes < b.bytes; });
  order.copies_us = floor_.CopiesUs(unmoved);
  order.unmoved_bytes = peak->bytes;
  const ptrdiff_t peak_at = peak - unmoved.usage.begin();
  for (const Stay& stay : unmoved.stays)
    order.rounding_bytes += stay.begin <= peak_at && peak_at < stay.end ? kBlockBytes : 0;
  order.until_peak_us = 1e6 * std::accumulate(order.least_seconds.begin(),
                                              order.least_seconds.begin() + peak_at, 0.0);
}

// The tensors that a priced order rebuilds could as well be evicted.
std::vector<const SearchOrder*> OrderSet::SmallestFrom(size_t first) const {
  std::vector<const SearchOrder*> orders;
  for (size_t i = first; i < orders_.size(); ++i) {
    const SearchOrder& order = orders_[i];
    const bool may_be_smallest = !order.is_priced || !residencies_.may_move();
    if (may_be_smallest && order.policy.name == policy_.name) orders.push_back(&order);
  }
  return orders;
}

}  // namespace neap
