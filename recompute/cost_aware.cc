#include "neap/recompute/cost_aware.h"

#include <optional>
#include <utility>
#include <vector>

#include "neap/core/program/liveness.h"
#include "neap/recompute/layerwise_bound.h"
#include "neap/recompute/rerun_order.h"

namespace neap {
namespace {

Liveness LivenessOf(const Program& program, ComputeSequence runs) {
  return FindLiveness(program, std::move(runs), CanBeInPlace(program));
}

// The segments that have a rebuilt tensor in memory at a run whose usage exceeds the bound.
std::vector<size_t> SegmentsAbove(const Program& program, const Segments& segments,
                                  const Liveness& liveness, int64_t bound_bytes) {
  const ComputeSequence& runs = liveness.runs;
  std::vector<int> above = {0};  // by position: the number of runs above the bound before it
  for (const RunUsage& at : UsagePerRun(program, liveness))
    above.push_back(above.back() + (at.sum() + at.sources > bound_bytes ? 1 : 0));
  std::vector<size_t> found;
  for (const Lifetime& life : liveness.lives) {
    if (!segments.dropped[life.tensor.index()]) continue;
    if (!runs[static_cast<size_t>(life.begin)].recompute) continue;
    if (above[static_cast<size_t>(life.end)] == above[static_cast<size_t>(life.begin)]) continue;
    found.push_back(*segments.of_step[runs[static_cast<size_t>(life.begin)].step.index()]);
  }
  return found;
}

// The step with the smallest result among the reruns [first, last).
std::optional<StepId> SmallestResult(const Program& program, const ComputeSequence& runs,
                                     size_t first, size_t last) {
  std::optional<StepId> smallest;
  int64_t least = 0;
  for (size_t i = first; i < last; ++i) {
    int64_t bytes = 0;
    for (TensorId made : RunWrites(program, runs[i]))
      bytes += program.tensor(made).spec.size_bytes();
    if (smallest.has_value() && bytes >= least) continue;
    smallest = runs[i].step;
    least = bytes;
  }
  return smallest;
}

// For each group of consecutive reruns that exceeds the bound, the step with the smallest result
// from the first rerun above the bound on.
std::vector<StepId> SmallestBeyond(const Program& program, const Liveness& liveness,
                                   int64_t bound_bytes) {
  const ComputeSequence& runs = liveness.runs;
  const std::vector<RunUsage> usage = UsagePerRun(program, liveness);
  std::vector<StepId> found;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].recompute || usage[i].sum() <= bound_bytes) continue;
    const size_t first = i;
    while (i < runs.size() && runs[i].recompute) ++i;
    found.push_back(*SmallestResult(program, runs, first, i));
  }
  return found;
}

// Makes checkpoints of the tensors that the step writes. Returns false if they all were.
bool MakeCheckpoint(const Step& step, Segments& segments) {
  bool changed = false;
  for (const Use& use : step.writes) {
    changed = changed || segments.dropped[use.tensor.index()];
    segments.dropped[use.tensor.index()] = false;
    segments.checkpoints[use.tensor.index()] = true;
  }
  return changed;
}

}  // namespace

bool CanBeInPlace(const Program& program) {
  return program.options.accounting == Accounting::kExact;
}

void MeetBound(const Program& program, int64_t bound_bytes, Segments& segments) {
  bool changed = true;
  while (changed) {
    changed = false;
    const Liveness liveness =
        LivenessOf(program, OrderReruns(program, segments, RerunMode::kMemoryCentric));
    for (StepId step : SmallestBeyond(program, liveness, bound_bytes))
      changed = MakeCheckpoint(program.steps[step.index()], segments) || changed;
  }
}

ComputeSequence CostAwareOrder(const Program& program, const Segments& segments,
                               int64_t bound_bytes) {
  std::vector<RerunMode> modes(segments.steps.size(), RerunMode::kSpeedCentric);
  while (true) {
    Liveness liveness = LivenessOf(program, OrderReruns(program, segments, modes));
    bool changed = false;
    for (size_t segment : SegmentsAbove(program, segments, liveness, bound_bytes)) {
      changed = changed || modes[segment] == RerunMode::kSpeedCentric;
      modes[segment] = RerunMode::kMemoryCentric;
    }
    if (!changed) return std::move(liveness.runs);
  }
}

}  // namespace neap
