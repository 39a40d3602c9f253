#include "neap/recompute/spared_reruns.h"

#include <algorithm>

namespace neap {

SparedReruns::SparedReruns(const Program& program) : tensors_(program.tensors.size()) {
  const auto operands_of = [&](const Run& run) {
    return Operands{.reads = RunReads(program, run), .writes = RunWrites(program, run)};
  };
  for (const Step& step : program.steps) {
    first_.push_back(operands_of({step.id}));
    const bool may_rerun = step.phase == Phase::kForward;
    again_.push_back(may_rerun ? operands_of({.step = step.id, .recompute = true}) : Operands{});
  }
}

ComputeSequence SparedReruns::Without(const ComputeSequence& runs, size_t position) const {
  std::vector<bool> is_read(tensors_, false);  // by a later run, before another one writes it
  ComputeSequence kept;
  for (size_t i = runs.size(); i-- > 0;) {
    const Operands& operands = Of(runs[i]);
    if (runs[i].recompute) {
      const bool is_needed =
          std::any_of(operands.writes.begin(), operands.writes.end(),
                      [&](TensorId written) { return is_read[written.index()]; });
      if (i == position || !is_needed) continue;
    }
    for (TensorId written : operands.writes) is_read[written.index()] = false;
    for (TensorId read : operands.reads) is_read[read.index()] = true;
    kept.push_back(runs[i]);
  }
  std::reverse(kept.begin(), kept.end());
  return kept;
}

}  // namespace neap
