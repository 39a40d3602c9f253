#include "neap/memory/search/time_floor.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "neap/core/plan/cost_model.h"
#include "neap/core/plan/timeline.h"
#include "neap/memory/search/candidate.h"

namespace neap {
namespace {

double FastestLink(const PlannerOptions& options, const DeviceDescription& device) {
  const TimelineCosts transfers = TransferCosts(device);
  const double d2h = transfers.d2h_bytes_per_second;
  const double h2d = transfers.h2d_bytes_per_second;
  const double peer = transfers.peer_bytes_per_second;
  if (d2h == 0 || h2d == 0) return 0;
  return options.peer_budget_bytes > 0 ? std::max({d2h, h2d, peer}) : std::max(d2h, h2d);
}

}  // namespace

TimeFloor::TimeFloor(const Program& program, const PlannerOptions& options,
                     const DeviceDescription& device, const Residencies& residencies,
                     const IterationTime& times)
    : program_(program),
      options_(options),
      residencies_(residencies),
      times_(times),
      link_bytes_per_second_(FastestLink(options, device)) {}

double TimeFloor::LeastUs(const SearchOrder& order, int64_t capacity_bytes) const {
  // Other policies move the same tensors whatever the capacity.
  if (!order.policy.needs_based()) return std::max(order.fastest_us, order.copies_us);
  const int64_t least_bytes =
      order.unmoved_bytes - order.rounding_bytes - residencies_.on_host_bytes();
  if (least_bytes <= capacity_bytes) return order.fastest_us;
  const int64_t excess = least_bytes - capacity_bytes;
  if (excess - options_.peer_budget_bytes > options_.host_budget_bytes)
    return std::numeric_limits<double>::infinity();
  if (link_bytes_per_second_ <= 0) return order.fastest_us;
  const double copy_us = 1e6 * static_cast<double>(excess) / link_bytes_per_second_;
  return std::max(order.until_peak_us, copy_us) +
         std::max(order.fastest_us - order.until_peak_us, copy_us);
}

double TimeFloor::CopiesUs(const Residency& residency) const {
  if (link_bytes_per_second_ <= 0) return 0;
  int64_t out = 0, back = 0;
  for (const Stay& stay : residency.stays) {
    const int64_t bytes = program_.tensor(stay.tensor).spec.size_bytes();
    out += stay.offload_at.has_value() ? bytes : 0;
    back += stay.fetched ? bytes : 0;
  }
  return 1e6 * static_cast<double>(std::max(out, back)) / link_bytes_per_second_;
}

bool TimeFloor::IsTooSlow(const SearchOrder& order, const Residency& residency, double best_us,
                          Plan& scratch) const {
  if (std::isinf(best_us)) return false;
  return order.fastest_us >= best_us || CopiesUs(residency) >= best_us ||
         ApartUs(order, residency, scratch) >= best_us;
}

// By a timeline in which nothing waits for bytes.
double TimeFloor::ApartUs(const SearchOrder& order, const Residency& residency,
                          Plan& scratch) const {
  std::vector<double> compute_seconds;
  for (size_t i = 0; i < order.least_seconds.size(); ++i) {
    const Step& step = program_.steps[order.liveness.runs[i].step.index()];
    if (!IsCollective(step.phase)) compute_seconds.push_back(order.least_seconds[i]);
  }
  return times_.LeastUs(WriteApart(program_, order.liveness.runs, residency, order.engines).actions,
                        std::move(compute_seconds), scratch);
}

}  // namespace neap
