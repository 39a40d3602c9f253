#include "neap/recompute/fates.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "neap/recompute/cost_aware.h"

namespace neap {
namespace {

// The positions between which a life that is moved is on the host; both are its end if it has no
// such interval.
std::pair<int, int> OnHost(const Program& program, const Lifetime& life,
                           const ComputeSequence& runs) {
  const auto back = std::find_if(life.uses.begin(), life.uses.end(), [&](int use) {
    const auto& [step, recompute] = runs[static_cast<size_t>(use)];
    return recompute || program.steps[step.index()].phase != Phase::kForward;
  });
  if (back == life.uses.begin() || back == life.uses.end()) return {life.end, life.end};
  return {*(back - 1) + 1, *back};
}

// Finds the peak of the bytes, which change by `change` at each position.
void FindPeak(const std::vector<int64_t>& change, FatedOrder& order) {
  int64_t now = 0;
  for (size_t i = 0; i < order.liveness.runs.size(); ++i) {
    now += change[i];
    if (now == order.peak_bytes) ++order.at_peak;
    if (now <= order.peak_bytes) continue;
    order.peak_bytes = now;
    order.peak_at = static_cast<int>(i);
    order.at_peak = 1;
  }
}

}  // namespace

void Fates::Set(StepId step, Fate fate) {
  fates_[step.index()] = fate;
  SetDropped(program_.steps[step.index()], IsRebuilt(fate), segments_);
  modes_[*segments_.of_step[step.index()]] =
      fate == Fate::kRebuiltEachTime ? RerunMode::kMemoryCentric : RerunMode::kOnDemand;
}

void Fates::Restore(const std::vector<Fate>& fates) {
  for (const Step& step : program_.steps) {
    if (Of(step.id) != fates[step.id.index()]) Set(step.id, fates[step.id.index()]);
  }
}

bool Fates::CanBeRebuilt(StepId step) const {
  return segments_.of_step[step.index()].has_value() && std::isfinite(RerunSeconds(step));
}

FatedOrder Fates::Order() const {
  FatedOrder order;
  order.liveness =
      FindLiveness(program_, OrderReruns(program_, segments_, modes_), CanBeInPlace(program_));
  const auto& [runs, lives, replaces] = order.liveness;
  std::vector<int64_t> change(runs.size() + 1, 0);
  int64_t moved_bytes = 0;
  for (size_t i = 0; i < lives.size(); ++i) {
    const Tensor& tensor = program_.tensor(lives[i].tensor);
    if (IsPersistent(tensor.role)) continue;
    const int64_t bytes = tensor.spec.size_bytes();
    // In place, a life takes over the bytes of another one position before that one ends.
    const int begin = lives[i].begin + (replaces[i].has_value() ? 1 : 0);
    change[static_cast<size_t>(begin)] += bytes;
    change[static_cast<size_t>(lives[i].end)] -= bytes;
    if (!IsMoved(lives[i], runs)) continue;
    const auto [out, back] = OnHost(program_, lives[i], runs);
    change[static_cast<size_t>(out)] -= bytes;
    change[static_cast<size_t>(back)] += bytes;
    moved_bytes += bytes;
  }
  order.moved_bytes = moved_bytes;
  order.seconds = SecondsOf(runs, moved_bytes);
  FindPeak(change, order);
  return order;
}

std::vector<bool> Fates::Moved(const FatedOrder& order) const {
  std::vector<bool> moved;
  for (const Lifetime& life : order.liveness.lives) {
    if (!IsMoved(life, order.liveness.runs)) continue;
    moved.resize(program_.tensors.size());
    moved[life.tensor.index()] = true;
  }
  return moved;
}

// Whether it is the life of a result of forward that is moved.
bool Fates::IsMoved(const Lifetime& life, const ComputeSequence& runs) const {
  const std::optional<StepId> producer = Producer(life.tensor);
  return producer.has_value() && Of(*producer) == Fate::kMoved && IsInBackward(life.tensor) &&
         !runs[static_cast<size_t>(life.begin)].recompute;
}

// Copies to the host are hidden as far as they take no longer than forward.
double Fates::SecondsOf(const ComputeSequence& runs, int64_t moved_bytes) const {
  double seconds = 0;
  if (moved_bytes > 0) {
    const double copies = static_cast<double>(moved_bytes) * prices_.copy_seconds_per_byte;
    seconds = std::max(copies - prices_.forward_seconds, 0.0);
  }
  std::vector<bool> is_rerun(program_.steps.size(), false);
  for (const auto& [step, recompute] : runs) {
    if (!recompute) continue;
    seconds += is_rerun[step.index()] ? RerunSeconds(step) : FirstRerunSeconds(step);
    is_rerun[step.index()] = true;
  }
  return seconds;
}

}  // namespace neap
