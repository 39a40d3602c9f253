#include "neap/recompute/faster_fates.h"

#include <algorithm>

namespace neap {
namespace {

// What is spared leaves one part in so many of the bytes free. Of tensors that fill memory up for
// long, places are hard to find, and plans in which none were left out were slower in the end.
constexpr int64_t kRoomForPlaces = 10;

}  // namespace

std::vector<FatedPoint> FasterFates::Find(const std::vector<Fate>& from, int64_t most_bytes,
                                          bool may_move, int64_t most_walked) {
  fates_.Restore(from);
  walked_ = 0;
  order_ = OrderNow();
  bool found = false;
  for (StepId step : Rebuilt()) {
    for (Fate fate : {Fate::kKept, Fate::kMoved, Fate::kRebuiltOnce}) {
      if (walked_ > most_walked) break;
      if (fate == Fate::kMoved && !may_move) continue;
      if (!Try(step, fate, most_bytes)) continue;
      found = true;
      break;
    }
  }
  std::vector<FatedPoint> points;
  if (found) points.push_back(PointOf(order_, hides_, fates_));
  if (Spare(most_bytes, most_walked)) {
    points.push_back(PointOf(order_, hides_, fates_));
    points.back().point.spares = true;
  }
  return points;
}

std::vector<StepId> FasterFates::Rebuilt() const {
  std::vector<int> reruns(program_.steps.size(), 0);
  for (const auto& [step, recompute] : order_.runs) reruns[step.index()] += recompute ? 1 : 0;
  std::vector<std::pair<double, StepId>> rebuilt;
  for (const Step& step : program_.steps) {
    if (IsRebuilt(fates_.Of(step.id)))
      rebuilt.emplace_back(-reruns[step.id.index()] * fates_.RerunSeconds(step.id), step.id);
  }
  std::sort(rebuilt.begin(), rebuilt.end());
  std::vector<StepId> steps;
  for (const auto& [seconds, step] : rebuilt) steps.push_back(step);
  return steps;
}

bool FasterFates::Try(StepId step, Fate fate, int64_t most_bytes) {
  const Fate before = fates_.Of(step);
  if (fate == before) return false;
  fates_.Set(step, fate);
  FatedOrder order = OrderNow();
  if (order.peak_bytes <= most_bytes && order.seconds < order_.seconds) {
    order_ = std::move(order);
    return true;
  }
  fates_.Set(step, before);
  return false;
}

bool FasterFates::Spare(int64_t most_bytes, int64_t most_walked) {
  walked_ = 0;
  bool found = false;
  const int64_t crowded_bytes = most_bytes - most_bytes / kRoomForPlaces;
  order_ = fates_.Evaluate(std::move(order_.runs), hides_);
  int64_t crowded = fates_.PositionsAbove(crowded_bytes);
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
    FatedOrder order = fates_.Evaluate(spared_.Without(order_.runs, i), hides_);
    walked_ += static_cast<int64_t>(order_.runs.size());
    const int64_t crowded_now = fates_.PositionsAbove(crowded_bytes);
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

FatedOrder FasterFates::OrderNow() {
  FatedOrder order = fates_.Order(hides_);
  walked_ += static_cast<int64_t>(order.runs.size());
  return order;
}

}  // namespace neap
