// The rungs of the plan search: levels of the ladders of all orders of runs, in the order in which
// they are tried.
//
// The orders that are likely to give the fastest candidates come first, because a fast candidate
// rules out others. There may be hundreds of orders, and a ladder needs a residency or more; so
// ladders are made only when their turn comes, and not at all for orders that are then too slow.
//
//   RungQueue queue(orders, residencies, floor, /*budget_bytes=*/12 * kGiB);
//   for (const Rungs& rungs : queue.Take(/*count=*/8, best_us))
//     try_rungs(*rungs.order, rungs.limits_bytes);
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "absl/types/span.h"
#include "neap/memory/search/order_set.h"
#include "neap/memory/search/residencies.h"
#include "neap/memory/search/search_order.h"
#include "neap/memory/search/time_floor.h"

namespace neap {

// Levels of the ladder of one order that fit the budget, the highest first; together about as much
// work as other rungs.
struct Rungs {
  const SearchOrder* order = nullptr;
  double least_us = 0;  // TimeFloor::LeastUs() in the budget
  std::vector<int64_t> limits_bytes = {};
};

class RungQueue {
 public:
  // *Ownership*: borrows the orders, residencies and floor.
  RungQueue(const OrderSet& orders, const Residencies& residencies, const TimeFloor& floor,
            int64_t budget_bytes);

  // The next rungs, at most `count`, without those that cannot take less than `best_us`; none if
  // there are no more. *Threads*: makes ladders side by side.
  std::vector<Rungs> Take(size_t count, double best_us);

 private:
  // By order, its rungs; none if no candidate of the order is faster.
  std::vector<std::vector<Rungs>> RungsOf(absl::Span<const SearchOrder* const> orders,
                                          double best_us) const;

  const Residencies& residencies_;
  const TimeFloor& floor_;
  int64_t capacity_bytes_;  // of the budget
  std::vector<const SearchOrder*> orders_;
  size_t next_ = 0;          // the first of the orders whose ladders are still to be made
  std::deque<Rungs> rungs_;  // of those before, still to be tried
};

}  // namespace neap
