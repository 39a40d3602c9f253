#include "neap/recompute/faster_retentions.h"

#include <algorithm>

namespace neap {
namespace {

// Spared reruns leave one part in so many of the bytes free. Places are hard to find for tensors
// that fill memory up for long, and plans in which none were left out were slower in the end.
constexpr int64_t kRoomForPlaces = 10;

}  // namespace

std::vector<RetentionPoint> FasterRetentions::Find(const std::vector<Retention>& from,
                                                   int64_t most_bytes, bool may_move,
                                                   int64_t most_walked) {
  retentions_.Restore(from);
  walked_ = 0;
  order_ = OrderNow();
  bool found = false;
  for (StepId step : Rebuilt()) {
    for (Retention retention : {Retention::kKept, Retention::kMoved, Retention::kRebuiltOnce}) {
      if (walked_ > most_walked) break;
      if (retention == Retention::kMoved && !may_move) continue;
      if (!Try(step, retention, most_bytes)) continue;
      found = true;
      break;
    }
  }
  std::vector<RetentionPoint> points;
  if (found) points.push_back(PointOf(order_, hides_, retentions_));
  if (Spare(most_bytes, most_walked)) {
    points.push_back(PointOf(order_, hides_, retentions_));
    points.back().point.spares = true;
  }
  return points;
}

std::vector<StepId> FasterRetentions::Rebuilt() const {
  std::vector<int> reruns(program_.steps.size(), 0);
  for (const auto& [step, recompute] : order_.runs) reruns[step.index()] += recompute ? 1 : 0;
  std::vector<std::pair<double, StepId>> rebuilt;
  for (const Step& step : program_.steps) {
    if (IsRebuilt(retentions_.Of(step.id)))
      rebuilt.emplace_back(-reruns[step.id.index()] * retentions_.RerunSeconds(step.id), step.id);
  }
  std::sort(rebuilt.begin(), rebuilt.end());
  std::vector<StepId> steps;
  for (const auto& [seconds, step] : rebuilt) steps.push_back(step);
  return steps;
}

bool FasterRetentions::Try(StepId step, Retention retention, int64_t most_bytes) {
  const Retention before = retentions_.Of(step);
  if (retention == before) return false;
  retentions_.Set(step, retention);
  EvaluatedOrder order = OrderNow();
  if (order.peak_bytes <= most_bytes && order.seconds < order_.seconds) {
    order_ = std::move(order);
    return true;
  }
  retentions_.Set(step, before);
  return false;
}

bool FasterRetentions::Spare(int64_t most_bytes, int64_t most_walked) {
  walked_ = 0;
  bool found = false;
  const int64_t crowded_bytes = most_bytes - most_bytes / kRoomForPlaces;
  order_ = retentions_.Evaluate(std::move(order_.runs), hides_);
  int64_t crowded = retentions_.PositionsAbove(crowded_bytes);
  const auto reruns_before = [this](size_t end) {
    std::vector<int> reruns(program_.steps.size(), 0);  // by StepId
    for (size_t i = 0; i < end; ++i)
      reruns[order_.runs[i].step.index()] += order_.runs[i].recompute ? 1 : 0;
    return reruns;
  };
  std::vector<int> before = reruns_before(order_.runs.size());
  for (size_t i = order_.runs.size(); i-- > 0 && walked_ < most_walked;) {
    const Run& run = order_.runs[i];
    if (!run.recompute || --before[run.step.index()] == 0) continue;
    EvaluatedOrder order = retentions_.Evaluate(spared_.Without(order_.runs, i), hides_);
    walked_ += static_cast<int64_t>(order_.runs.size());
    const int64_t crowded_now = retentions_.PositionsAbove(crowded_bytes);
    if (order.peak_bytes > most_bytes || crowded_now > crowded) continue;
    if (order.seconds >= order_.seconds) continue;
    crowded = crowded_now;
    i -= order_.runs.size() - order.runs.size() - 1;  // those removed before it
    order_ = std::move(order);
    before = reruns_before(i);
    found = true;
  }
  return found;
}

EvaluatedOrder FasterRetentions::OrderNow() {
  EvaluatedOrder order = retentions_.Order(hides_);
  walked_ += static_cast<int64_t>(order.runs.size());
  return order;
}

}  // namespace neap
