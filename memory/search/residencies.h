// The residencies of the plan search: what a policy keeps, moves and drops in an order of runs, for
// any memory limit. A residency counts bytes; it knows no addresses yet.
//
// Without room outside the arena (PlannerOptions::has_room_outside()) nothing moves, and an order
// has one residency, whatever the limit.
//
//   const Residencies residencies(program, options);
//   const Usage limit = {.bytes = 8 * kGiB, .activation_bytes = kUnlimited};
//   Residency residency = residencies.OverlappedUnder(limit, order, order.workspaces);
#pragma once

#include <cstdint>
#include <vector>

#include "neap/core/program/program.h"
#include "neap/memory/planner_options.h"
#include "neap/memory/search/search_order.h"
#include "neap/memory/transfer/residency.h"
#include "neap/memory/transfer/usage.h"
#include "neap/recompute/layerwise_bound.h"

namespace neap {

class Residencies {
 public:
  // *Ownership*: borrows both.
  Residencies(const Program& program, const PlannerOptions& options);

  // The residency by the order's policy, with workspaces by position. Under a limit of 0 bytes,
  // everything that may be evicted is.
  Residency Under(const Usage& limit, const SearchOrder& order,
                  const std::vector<int64_t>& workspaces) const;
  // The same, with transfers that overlap with runs as far as the limit allows.
  Residency OverlappedUnder(const Usage& limit, const SearchOrder& order,
                            const std::vector<int64_t>& workspaces) const;

  bool may_move() const { return options_->has_room_outside(); }
  bool in_place() const;
  const LayerwiseBound& layerwise() const { return layerwise_; }

  // The bytes of the tensors that are on the host between iterations.
  int64_t on_host_bytes() const { return on_host_bytes_; }
  // The bytes of a budget above persistent tensors.
  int64_t Capacity(int64_t budget_bytes) const;

 private:
  const Program* program_;
  const PlannerOptions* options_;
  LayerwiseBound layerwise_;
  int64_t on_host_bytes_ = 0;
};

}  // namespace neap
