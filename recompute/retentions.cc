#include "neap/recompute/retentions.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace neap {
namespace {

// Finds the peak of the bytes, which change by `change` at each position.
void FindPeak(const std::vector<int64_t>& change, EvaluatedOrder& order) {
  int64_t now = 0;
  for (size_t i = 0; i < order.runs.size(); ++i) {
    now += change[i];
    if (now == order.peak_bytes) ++order.at_peak;
    if (now <= order.peak_bytes) continue;
    order.peak_bytes = now;
    order.peak_at = static_cast<int>(i);
    order.at_peak = 1;
  }
}

// A result smaller than this part of its step's largest one stays when that moves, such as batch
// normalization's means: its copies would free next to nothing, and each interrupts the kernels
// that the GPU replays at once (core/run/executor.h).
constexpr int64_t kMovedPartsOfLargest = 1000;

}  // namespace

void Retentions::Set(StepId step, Retention retention) {
  retentions_[step.index()] = retention;
  SetDropped(program_.steps[step.index()], IsRebuilt(retention), segments_);
  modes_[*segments_.of_step[step.index()]] =
      retention == Retention::kRebuiltEachTime ? RerunMode::kMemoryCentric : RerunMode::kOnDemand;
  const std::vector<Use>& writes = program_.steps[step.index()].writes;
  const auto bytes_of = [this](const Use& use) {
    return program_.tensor(use.tensor).spec.size_bytes();
  };
  int64_t largest = 0;
  for (const Use& use : writes) largest = std::max(largest, bytes_of(use));
  for (const Use& use : writes) {
    moved_[use.tensor.index()] = retention == Retention::kMoved && IsInBackward(use.tensor) &&
                                 bytes_of(use) >= largest / kMovedPartsOfLargest;
  }
}

void Retentions::Restore(const std::vector<Retention>& retentions) {
  for (const Step& step : program_.steps) {
    if (Of(step.id) != retentions[step.id.index()]) Set(step.id, retentions[step.id.index()]);
  }
}

bool Retentions::CanBeRebuilt(StepId step) const {
  return segments_.of_step[step.index()].has_value() && std::isfinite(RerunSeconds(step));
}

EvaluatedOrder Retentions::Order(bool hidden) {
  return Evaluate(OrderReruns(program_, segments_, modes_), hidden);
}

EvaluatedOrder Retentions::Evaluate(ComputeSequence runs, bool hidden) {
  EvaluatedOrder order;
  order.runs = std::move(runs);
  sweep_.Walk(order.runs, moved_);
  if (hidden) HideCopies(order.runs, sweep_.absences());
  for (const Absence& absence : sweep_.absences()) {
    order.moved_bytes += absence.bytes;
    if (absence.begin >= absence.end) continue;
    sweep_.changes()[static_cast<size_t>(absence.begin)] -= absence.bytes;
    sweep_.changes()[static_cast<size_t>(absence.end)] += absence.bytes;
  }
  order.seconds = SecondsOf(order.runs, order.moved_bytes);
  FindPeak(sweep_.changes(), order);
  return order;
}

int64_t Retentions::PositionsAbove(int64_t bytes) {
  int64_t now = 0, positions = 0;
  for (int64_t change : sweep_.changes()) {
    now += change;
    positions += now > bytes ? 1 : 0;
  }
  return positions;
}

std::vector<bool> Retentions::Moved() const {
  const bool any = std::find(moved_.begin(), moved_.end(), true) != moved_.end();
  return any ? moved_ : std::vector<bool>();
}

void Retentions::HideCopies(const ComputeSequence& runs, std::vector<Absence>& absences) const {
  if (absences.empty()) return;
  std::vector<double> at = {0};  // when each run begins
  for (const auto& [step, recompute] : runs)
    at.push_back(at.back() + (recompute ? RerunSeconds(step) : prices_.run_seconds[step.index()]));
  const auto seconds_of = [&](const Absence& absence) {
    return prices_.copy_seconds_per_byte * static_cast<double>(absence.bytes);
  };
  double copied = 0;
  for (Absence& absence : absences) {
    copied = std::max(copied, at[static_cast<size_t>(absence.complete)]) + seconds_of(absence);
    const auto done = std::lower_bound(at.begin(), at.end() - 1, copied) - at.begin();
    absence.begin = std::max(absence.begin, static_cast<int>(done));
  }
  std::stable_sort(absences.begin(), absences.end(),
                   [](const Absence& a, const Absence& b) { return a.end > b.end; });
  double next = at.back();  // when the copy back after this one begins
  for (Absence& absence : absences) {
    next = std::min(next, at[static_cast<size_t>(absence.end)]) - seconds_of(absence);
    const auto after = std::upper_bound(at.begin(), at.end(), next) - at.begin();
    absence.end = std::max(0, static_cast<int>(after) - 1);
  }
}

// Copies to the host are hidden as far as they take no longer than forward; they and those back
// slow down what runs meanwhile.
double Retentions::SecondsOf(const ComputeSequence& runs, int64_t moved_bytes) const {
  double seconds = 0;
  if (moved_bytes > 0) {
    const double copies = static_cast<double>(moved_bytes) * prices_.copy_seconds_per_byte;
    seconds = std::max(copies - forward_seconds_, 0.0) +
              prices_.slowdown_by_copies_out * std::min(copies, forward_seconds_) +
              prices_.slowdown_by_copies_back * copies;
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
