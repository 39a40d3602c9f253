#include "neap/recompute/live_sweep.h"

#include <algorithm>

#include "neap/core/program/results.h"

namespace neap {

LiveSweep::LiveSweep(const Program& program, bool in_place)
    : program_(program), results_(KeptResults(program)) {
  for (const Step& step : program.steps) {
    first_.push_back(OperandsOf({step.id}, in_place));
    const bool may_rerun = step.phase == Phase::kForward;
    again_.push_back(may_rerun ? OperandsOf({.step = step.id, .recompute = true}, in_place)
                               : Operands{});
  }
}

// Without persistent tensors, and with the pairs that ProveInPlace() accepts whatever the lives.
LiveSweep::Operands LiveSweep::OperandsOf(const Run& run, bool in_place) const {
  const auto is_counted = [&](TensorId id) { return !IsPersistent(program_.tensor(id).role); };
  Operands operands;
  const std::vector<TensorId> reads = RunReads(program_, run);
  for (TensorId written : RunWrites(program_, run)) {
    if (!is_counted(written)) continue;
    (IsGiven(program_.tensor(written).role) ? operands.touches : operands.defines)
        .push_back(written);
  }
  std::copy_if(reads.begin(), reads.end(), std::back_inserter(operands.touches), is_counted);
  if (!in_place) return operands;
  for (const auto& [written, read] : program_.steps[run.step.index()].in_place) {
    const Tensor& to = program_.tensor(written);
    const Tensor& from = program_.tensor(read);
    if (IsGiven(to.role) || IsGiven(from.role)) continue;
    if (to.spec.size_bytes() != from.spec.size_bytes()) continue;
    if (std::count(reads.begin(), reads.end(), read) == 1)
      operands.in_place.emplace_back(written, read);
  }
  return operands;
}

void LiveSweep::Walk(const ComputeSequence& runs, const std::vector<bool>& moved) {
  lives_.clear();
  in_place_.clear();
  open_.assign(program_.tensors.size(), kNone);
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto& [step, recompute] = runs[i];
    const int position = static_cast<int>(i);
    const bool in_forward = !recompute && program_.steps[step.index()].phase == Phase::kForward;
    const Operands& operands = (recompute ? again_ : first_)[step.index()];
    for (TensorId tensor : operands.defines)
      Begin(tensor, position, in_forward && moved[tensor.index()]);
    for (TensorId tensor : operands.touches) Touch(tensor, position, in_forward);
    for (const auto& [written, read] : operands.in_place) {
      const size_t to = open_[written.index()], from = open_[read.index()];
      if (to != kNone && from != kNone) in_place_.push_back({position, to, from});
    }
  }
  const int end = static_cast<int>(runs.size());
  for (TensorId result : results_) {
    if (open_[result.index()] != kNone) lives_[open_[result.index()]].end = end;
  }
  ProveInPlace();
  AddUp(runs.size());
}

void LiveSweep::Begin(TensorId tensor, int position, bool is_wanted) {
  open_[tensor.index()] = lives_.size();
  lives_.push_back({.bytes = program_.tensor(tensor).spec.size_bytes(),
                    .begin = position,
                    .end = position + 1,
                    .is_wanted = is_wanted,
                    .absent_from = position + 1});
}

void LiveSweep::Touch(TensorId tensor, int position, bool in_forward) {
  if (open_[tensor.index()] == kNone) Begin(tensor, 0, /*is_wanted=*/false);
  Life& life = lives_[open_[tensor.index()]];
  life.end = position + 1;
  if (life.absent_until > 0) return;
  (in_forward ? life.absent_from : life.absent_until) = in_forward ? position + 1 : position;
}

void LiveSweep::ProveInPlace() {
  for (const auto& [position, to, from] : in_place_) {
    Life& written = lives_[to];
    Life& read = lives_[from];
    if (written.begin != position || written.takes_over || read.is_taken) continue;
    if (read.end != position + 1 || read.begin >= position) continue;
    written.takes_over = read.is_taken = true;
  }
}

void LiveSweep::AddUp(size_t runs) {
  changes_.assign(runs + 1, 0);
  absences_.clear();
  for (const Life& life : lives_) {
    changes_[static_cast<size_t>(life.begin + (life.takes_over ? 1 : 0))] += life.bytes;
    changes_[static_cast<size_t>(life.end)] -= life.bytes;
    if (life.is_wanted)
      absences_.push_back({life.bytes, life.begin + 1, life.absent_from, life.absent_until});
  }
}

}  // namespace neap
