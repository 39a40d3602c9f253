// The times that no candidate of the plan search falls below, and the prices behind them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "neap/memory/plan_search.h"

namespace neap {

double PlanSearch::MostBytesPerSecond() const {
  const double d2h = transfers_.d2h_bytes_per_second;
  const double h2d = transfers_.h2d_bytes_per_second;
  const double peer = transfers_.peer_bytes_per_second;
  if (d2h == 0 || h2d == 0) return 0;
  return options_->peer_budget_bytes > 0 ? std::max({d2h, h2d, peer}) : std::max(d2h, h2d);
}

double PlanSearch::LeastUs(const Order& order, int64_t capacity) const {
  // Other policies move the same tensors whatever the capacity.
  if (!order.policy.needs_based()) return std::max(order.fastest_us, order.copies_us);
  const int64_t least_bytes = order.unmoved_bytes - order.rounding_bytes - offloaded_param_bytes_;
  if (least_bytes <= capacity) return order.fastest_us;
  const int64_t excess = least_bytes - capacity;
  if (excess - options_->peer_budget_bytes > options_->host_budget_bytes)
    return std::numeric_limits<double>::infinity();
  const double bytes_per_second = MostBytesPerSecond();
  if (bytes_per_second <= 0) return order.fastest_us;
  const double copy_us = 1e6 * static_cast<double>(excess) / bytes_per_second;
  return std::max(order.until_peak_us, copy_us) +
         std::max(order.fastest_us - order.until_peak_us, copy_us);
}

double PlanSearch::TimeBoundUs(int64_t budget_bytes) const {
  if (!prices_.has_value()) return 0;
  return 1e6 * LeastSeconds(*program_, *prices_, Capacity(budget_bytes));
}

// By the host's link, so that a peer only adds faster copies to the same orders.
void PlanSearch::PriceCopies(RebuildPrices& prices) const {
  if (!may_move()) return;
  const double bytes_per_second =
      std::min(transfers_.d2h_bytes_per_second, transfers_.h2d_bytes_per_second);
  if (bytes_per_second > 0) prices.copy_seconds_per_byte = 1 / bytes_per_second;
  prices.slowdown_by_copies_out = transfers_.slowdown_by_offloads;
  prices.slowdown_by_copies_back = transfers_.slowdown_by_prefetches;
}

double PlanSearch::CopiesUs(const Residency& residency) const {
  const double bytes_per_second = MostBytesPerSecond();
  if (bytes_per_second <= 0) return 0;
  int64_t out = 0, back = 0;
  for (const Stay& stay : residency.stays) {
    const int64_t bytes = program_->tensor(stay.tensor).spec.size_bytes();
    out += stay.offload_at.has_value() ? bytes : 0;
    back += stay.fetched ? bytes : 0;
  }
  return 1e6 * static_cast<double>(std::max(out, back)) / bytes_per_second;
}

double PlanSearch::ApartUs(const Order& order, const Residency& residency, Plan& scratch) const {
  TimelineCosts costs = transfers_;
  for (size_t i = 0; i < order.least_seconds.size(); ++i) {
    const Step& step = program_->steps[order.liveness.runs[i].step.index()];
    if (!IsCollective(step.phase)) costs.compute_seconds.push_back(order.least_seconds[i]);
  }
  return PoolsApartUs(WriteApart(*program_, order.liveness.runs, residency, order.engines).actions,
                      std::move(costs), scratch);
}

bool PlanSearch::IsTooSlow(const Order& order, const Residency& residency, double best_us,
                           Plan& scratch) const {
  if (std::isinf(best_us)) return false;
  return order.fastest_us >= best_us || CopiesUs(residency) >= best_us ||
         ApartUs(order, residency, scratch) >= best_us;
}

}  // namespace neap
