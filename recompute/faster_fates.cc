#include "neap/recompute/faster_fates.h"

#include <algorithm>

namespace neap {

std::optional<FatedPoint> FasterFates::Find(const std::vector<Fate>& from, int64_t most_bytes,
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
  if (!found) return std::nullopt;
  return PointOf(order_, hides_, fates_);
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

FatedOrder FasterFates::OrderNow() {
  FatedOrder order = fates_.Order(hides_);
  walked_ += static_cast<int64_t>(order.runs.size());
  return order;
}

}  // namespace neap
