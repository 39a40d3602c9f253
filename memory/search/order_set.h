// The orders of runs of the plan search, with the engines of their steps.
//
// The orders of a policy come first. A plan, and not its minimum budget alone, may also take those
// of the policies that the policy contains, and those with priced reruns (Policy::priced_orders),
// which cost queries for the times of reruns; so these are added only where they are needed. An
// order that reruns a step for which no engine gives the same bits twice is left out.
//
//   OrderSet orders(program, policy, options, device, residencies, floor);
//   RETURN_IF_ERROR(orders.AddThoseOfPolicy(catalog));
//   orders.first().fastest_us;                          // of an iteration in which nothing waits
//   RETURN_IF_ERROR(orders.AddThoseForPlan(catalog));
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/timeline.h"
#include "neap/core/program/program.h"
#include "neap/memory/engines/engine_table.h"
#include "neap/memory/planner_options.h"
#include "neap/memory/policies/policy.h"
#include "neap/memory/search/residencies.h"
#include "neap/memory/search/search_order.h"
#include "neap/memory/search/time_bound.h"
#include "neap/memory/search/time_floor.h"
#include "neap/recompute/rebuild_prices.h"
#include "neap/recompute/recompute.h"

namespace neap {

class OrderSet {
 public:
  // *Ownership*: borrows all.
  OrderSet(const Program& program, const Policy& policy, const PlannerOptions& options,
           const DeviceDescription& device, const Residencies& residencies, const TimeFloor& floor);

  // Lists the engines and adds the orders of the policy itself; called once, first. Errors: those
  // of EngineTable; if no order can be rerun, the error of the first.
  absl::Status AddThoseOfPolicy(EngineCatalog& catalog);
  // Adds the others, if they are not there and the program trains. Pointers to orders become
  // invalid. Errors: those of EngineTable.
  absl::Status AddThoseForPlan(EngineCatalog& catalog);

  const std::vector<SearchOrder>& all() const { return orders_; }
  const SearchOrder& first() const { return orders_.front(); }
  // The orders among which that of the smallest candidate is, from the one with this index on.
  std::vector<const SearchOrder*> SmallestFrom(size_t first) const;

  const EngineTable& engines() const { return engines_; }
  double engines_ms() const { return engines_ms_; }  // spent querying the catalog
  // The prices behind priced orders; absent if there are none.
  const std::optional<TimePrices>& prices() const { return prices_; }

 private:
  // An order of runs, and whose it is.
  struct OwnedOrder {
    RunOrder order;
    Policy policy;
    bool is_priced = false;
  };

  // The orders of a policy without prices.
  void AppendOrdersOf(const Policy& policy, std::vector<OwnedOrder>& orders) const;
  absl::Status AppendPricedOrders(EngineCatalog& catalog, std::vector<OwnedOrder>& orders);
  // Adds what copies to the host cost, if tensors may move.
  void PriceCopies(RebuildPrices& prices) const;
  absl::Status Add(std::vector<OwnedOrder> run_orders, EngineCatalog& catalog);
  // A priced order evicts what is next used farthest in the future.
  SearchOrder Make(OwnedOrder owned) const;
  void MeasureUnmoved(SearchOrder& order) const;

  const Program& program_;
  const Policy& policy_;
  const PlannerOptions& options_;
  const DeviceDescription& device_;
  const Residencies& residencies_;
  const TimeFloor& floor_;
  TimelineCosts transfers_;  // without compute_seconds
  EngineTable engines_;
  double engines_ms_ = 0;
  bool has_all_ = false;
  std::optional<TimePrices> prices_;
  std::vector<SearchOrder> orders_;
};

}  // namespace neap
