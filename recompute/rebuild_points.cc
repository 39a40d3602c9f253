#include "neap/recompute/rebuild_points.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace neap {
namespace {

template <typename PointOrOrder>
bool IsAsGoodAs(const RebuildPoint& point, const PointOrOrder& other, bool other_hides_copies,
                bool other_spares) {
  const bool is_alike = point.hides_copies == other_hides_copies || point.moved_bytes == 0;
  return is_alike && point.spares == other_spares && point.peak_bytes <= other.peak_bytes &&
         point.seconds <= other.seconds && point.moved_bytes <= other.moved_bytes;
}

}  // namespace

RetentionPoint PointOf(const EvaluatedOrder& order, bool hides_copies,
                       const Retentions& retentions) {
  return {.point = {.runs = order.runs,
                    .peak_bytes = order.peak_bytes,
                    .seconds = order.seconds,
                    .moved_bytes = order.moved_bytes,
                    .hides_copies = hides_copies,
                    .moved = retentions.Moved()},
          .retentions = retentions.all()};
}

void RebuildPoints::Add(RetentionPoint point) {
  points_.push_back(std::move(point.point));
  retentions_.push_back(std::move(point.retentions));
}

bool RebuildPoints::IsWorthwhile(const EvaluatedOrder& order, bool hides_copies) const {
  const auto is_as_good = [&](const RebuildPoint& point) {
    return IsAsGoodAs(point, order, hides_copies, /*other_spares=*/false);
  };
  return !is_as_good(points_.front()) &&
         std::count_if(points_.begin(), points_.end(), is_as_good) <= most_better_;
}

std::vector<RebuildPoint> RebuildPoints::Best() && {
  std::stable_sort(points_.begin() + 1, points_.end(),
                   [](const RebuildPoint& a, const RebuildPoint& b) {
                     return std::tuple(a.peak_bytes, a.seconds, a.moved_bytes) <
                            std::tuple(b.peak_bytes, b.seconds, b.moved_bytes);
                   });
  std::vector<RebuildPoint> best;
  for (size_t i = 1; i < points_.size(); ++i) {
    const RebuildPoint& point = points_[i];
    const auto is_as_good = [&](const RebuildPoint& other) {
      return IsAsGoodAs(other, point, point.hides_copies, point.spares);
    };
    const auto is_equal = [&](const RebuildPoint& other) {
      return other.moved == point.moved && other.runs == point.runs;
    };
    if (is_as_good(points_.front())) continue;
    if (std::count_if(best.begin(), best.end(), is_as_good) > most_better_) continue;
    if (std::any_of(best.begin(), best.end(), is_equal)) continue;
    best.push_back(std::move(points_[i]));
  }
  best.push_back(std::move(points_.front()));
  std::reverse(best.begin(), best.end());
  return best;
}

}  // namespace neap
