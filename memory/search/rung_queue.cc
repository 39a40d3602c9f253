#include "neap/memory/search/rung_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "neap/core/base/parallel.h"
#include "neap/core/plan/planner.h"
#include "neap/memory/search/ladder.h"

namespace neap {
namespace {

// The orders whose ladders are made side by side; later ones may turn out not to be needed.
constexpr size_t kMaxOfLadders = 4;
// The levels that are tried one after another, as one part of a round, walk over so many runs.
constexpr size_t kRunsOfPart = 5'000;

std::vector<const SearchOrder*> LikelyFirst(const OrderSet& set, const TimeFloor& floor,
                                            int64_t capacity_bytes) {
  std::vector<const SearchOrder*> orders;
  for (const SearchOrder& order : set.all()) orders.push_back(&order);
  const auto rank = [&](const SearchOrder& order) {
    return std::pair(order.unmoved_bytes > capacity_bytes, floor.LeastUs(order, capacity_bytes));
  };
  std::stable_sort(orders.begin(), orders.end(),
                   [&](const SearchOrder* a, const SearchOrder* b) { return rank(*a) < rank(*b); });
  return orders;
}

}  // namespace

RungQueue::RungQueue(const OrderSet& orders, const Residencies& residencies, const TimeFloor& floor,
                     int64_t budget_bytes)
    : residencies_(residencies),
      floor_(floor),
      capacity_bytes_(residencies.Capacity(budget_bytes)),
      orders_(LikelyFirst(orders, floor, capacity_bytes_)) {}

std::vector<Rungs> RungQueue::Take(size_t count, double best_us) {
  std::erase_if(rungs_, [&](const Rungs& rungs) { return rungs.least_us >= best_us; });
  while (rungs_.size() < count && next_ < orders_.size()) {
    const size_t orders = std::min(kMaxOfLadders, orders_.size() - next_);
    for (std::vector<Rungs>& rungs : RungsOf({orders_.data() + next_, orders}, best_us))
      std::move(rungs.begin(), rungs.end(), std::back_inserter(rungs_));
    next_ += orders;
  }
  const auto end = rungs_.begin() + static_cast<ptrdiff_t>(std::min(count, rungs_.size()));
  std::vector<Rungs> taken(std::move_iterator(rungs_.begin()), std::move_iterator(end));
  rungs_.erase(rungs_.begin(), end);
  return taken;
}

std::vector<std::vector<Rungs>> RungQueue::RungsOf(absl::Span<const SearchOrder* const> orders,
                                                   double best_us) const {
  std::vector<std::vector<Rungs>> rungs(orders.size());
  EachInParallel(orders.size(), kMaxPlanningThreads, [&] {
    return [&](size_t i) {
      const SearchOrder& order = *orders[i];
      const double least_us = floor_.LeastUs(order, capacity_bytes_);
      if (least_us >= best_us) return;
      const size_t most = std::max(kRunsOfPart / order.liveness.runs.size(), size_t{1});
      const Ladder ladder(order, residencies_);
      for (const int64_t limit_bytes : ladder.limits_bytes()) {
        if (limit_bytes > capacity_bytes_) continue;
        if (rungs[i].empty() || rungs[i].back().limits_bytes.size() == most)
          rungs[i].push_back({.order = &order, .least_us = least_us});
        rungs[i].back().limits_bytes.push_back(limit_bytes);
      }
    };
  });
  return rungs;
}

}  // namespace neap
