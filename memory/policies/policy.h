// A policy: which tensors a plan keeps, moves and recomputes. It is a row of functions and choices
// that the search (memory/search/plan_search.h) applies; it contains no search of its own.
//
//   order_runs      where forward steps are rerun       if there are several, the fastest is taken
//   priced_orders   more such orders, from the times of reruns
//   eager_tensors   what is offloaded after forward     whatever the budget
//   evictable       what the tensor cache may evict     where the memory limit requires it
//   eviction        which tensor the cache evicts first
//   schedule        residency, workspaces and addresses in one walk, instead of the tensor cache's
//
// A new policy is a file with its functions beside this one and a row in policies.cc:
//
//   {.name = "vdnn-all", .eager_tensors = AllInputs},
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "neap/core/program/program.h"
#include "neap/memory/policies/schedule.h"
#include "neap/memory/transfer/residency.h"
#include "neap/memory/transfer/tensor_cache.h"
#include "neap/memory/transfer/usage.h"
#include "neap/recompute/layerwise_bound.h"
#include "neap/recompute/rebuild_prices.h"
#include "neap/recompute/recompute.h"

namespace neap {

// Orders<WithoutReruns, CostAware>: both orders, for Policy::order_runs.
template <RunOrder (*... orders)(const Program&)>
std::vector<RunOrder> Orders(const Program& program) {
  return {orders(program)...};
}

inline std::vector<bool> NoTensors(const Program& /*program*/, const RunOrder& /*order*/) {
  return {};
}

struct Policy {
  std::string_view name;
  bool keep_all = false;  // nothing is freed before the end of the iteration
  // The orders of runs that the policy may use, of which the search takes the fastest. The first
  // one is used where the budget is not short.
  std::vector<RunOrder> (*order_runs)(const Program& program) = Orders<WithoutReruns>;
  // More orders, none by default, from the times that reruns cost. With these, both rules of
  // eviction are tried.
  std::vector<RunOrder> (*priced_orders)(const Program& program,
                                         const RebuildPrices& prices) = nullptr;
  // The tensors, by TensorId (none if empty), that are offloaded as soon as forward has read them,
  // and prefetched for backward (SuperNeurons 3.3.1).
  std::vector<bool> (*eager_tensors)(const Program& program, const RunOrder& order) = NoTensors;
  Evictable evictable = Evictable::kNone;
  std::optional<EvictionRule> eviction = {};  // if absent, that of the planner's options
  // Absent if the request has too little memory. With it, the tensor cache decides only where
  // nothing has to move, and where as much as possible has to.
  std::optional<Schedule> (*schedule)(const ScheduleRequest& request) = nullptr;
  // The fastest plan may also be one of a policy that offloads eagerly, by that policy's rules, or
  // one that has a schedule.
  bool contains_eager = false;
  // If the budget is short, the batch may be run in sub-batches (memory/program_choice.h).
  bool may_split_batch = false;
  // If the budget is short, parameters may be kept on the host (memory/program_choice.h).
  bool may_offload_params = false;
  // Activations stay under the layer-wise bound (recompute/layerwise_bound.h) if they can, whatever
  // the budget. A budget above that is used to overlap transfers.
  bool to_layerwise_bound = false;

  // Tensors move and forward steps are rerun only where the budget requires it.
  bool needs_based() const { return evictable == Evictable::kAll; }
  // Tensors move whatever the budget.
  bool always_moves() const { return eager_tensors != NoTensors; }
  // The limit under which residency is decided if the arena may take `limit`. Policies that are not
  // needs-based move the same tensors whatever the limit.
  Usage ResidencyLimit(const Usage& limit, const LayerwiseBound& bound) const {
    if (needs_based()) return limit;
    return {.bytes = kUnlimited, .activation_bytes = to_layerwise_bound ? bound.bytes : kUnlimited};
  }
};

}  // namespace neap
