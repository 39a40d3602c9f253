// An order of runs in the plan search, with what follows from it whatever the memory limit: when
// tensors are in use, with which engines and workspaces its steps run, and how long they take. All
// candidates of an order share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "neap/core/program/liveness.h"
#include "neap/memory/engines/engine_table.h"
#include "neap/memory/policies/policy.h"
#include "neap/memory/transfer/overlap.h"
#include "neap/memory/transfer/tensor_cache.h"

namespace neap {

// There are many levels for orders of at most so many runs (memory/search/ladder.h).
inline constexpr size_t kMaxRunsOfShort = 64;

struct SearchOrder {
  bool is_priced = false;  // one of Policy::priced_orders
  Policy policy;           // the search's, or another one that it contains
  EvictionRule eviction = EvictionRule::kLru;
  Liveness liveness;  // with the runs
  EngineTable engines;
  std::vector<bool> eager;          // by TensorId: offloaded in any case; none if empty
  std::vector<int64_t> workspaces;  // by position, bytes: the smallest
  std::vector<int64_t> preferred;   // by position, bytes: those of the fastest configurations
  // Whether tensors may be evicted to make room for larger workspaces.
  bool may_evict_for_workspaces = false;
  TransferTimes times;
  std::vector<double> least_seconds;  // by position: of the fastest engine
  double fastest_us = 0;              // if nothing waits and every step has its fastest engine
  // If nothing is moved because of a limit: the most bytes in use, without persistent tensors; how
  // many of them are there only because tensors take whole blocks; the time until then, if nothing
  // waits; and the time of all copies.
  int64_t unmoved_bytes = 0;
  int64_t rounding_bytes = 0;
  double until_peak_us = 0;
  double copies_us = 0;

  bool is_short() const { return liveness.runs.size() <= kMaxRunsOfShort; }
};

}  // namespace neap
