#include "neap/recompute/layerwise_bound.h"

#include <algorithm>

namespace neap {
namespace {

// Adds `bytes` over [begin, end) to a curve that is given by its changes.
void Raise(std::vector<int64_t>& change, int begin, int end, int64_t bytes) {
  change[static_cast<size_t>(begin)] += bytes;
  change[static_cast<size_t>(end)] -= bytes;
}

// Adds the life's bytes from each rerun that reads it to the step that reads it next.
void RaiseAfterReruns(const ComputeSequence& runs, const Lifetime& life, int64_t bytes,
                      std::vector<int64_t>& change) {
  for (size_t i = 1; i < life.uses.size(); ++i) {
    const int from = life.uses[i - 1];
    const int to = life.uses[i];
    const bool again = runs[static_cast<size_t>(from)].recompute;
    if (again && !runs[static_cast<size_t>(to)].recompute) Raise(change, from + 1, to, bytes);
  }
}

// The bytes of dx if it takes dy's bytes without being written (paper accounting only).
int64_t HandedOnBytes(const Program& program, const Step& step) {
  const bool hands_on = program.options.accounting == Accounting::kPaper &&
                        step.phase == Phase::kBackwardData && step.writes.empty() &&
                        step.accumulates.empty();
  if (!hands_on) return 0;
  for (const Use& use : step.reads) {
    if (use.operand.slot == Slot::kOutputGrad) return program.tensor(use.tensor).spec.size_bytes();
  }
  return 0;
}

}  // namespace

std::vector<RunUsage> UsagePerRun(const Program& program, const Liveness& liveness) {
  const ComputeSequence& runs = liveness.runs;
  const std::vector<Lifetime>& lives = liveness.lives;
  const Replacements& replaces = liveness.replaces;
  std::vector<RunUsage> usage(runs.size());
  std::vector<int64_t> open(runs.size() + 1, 0);
  std::vector<int64_t> rebuilt(runs.size() + 1, 0);
  std::vector<int64_t> sources(runs.size() + 1, 0);
  for (size_t i = 0; i < lives.size(); ++i) {
    const Lifetime& life = lives[i];
    const Tensor& tensor = program.tensor(life.tensor);
    if (!CountsAsActivation(tensor.role)) continue;
    const int64_t bytes = tensor.spec.size_bytes();
    for (int use : life.uses) usage[static_cast<size_t>(use)].working_set += bytes;
    if (replaces[i].has_value()) usage[static_cast<size_t>(life.begin)].working_set -= bytes;
    const bool waits = tensor.role != Role::kActivation;
    if (!waits && !runs[static_cast<size_t>(life.begin)].recompute) {
      RaiseAfterReruns(runs, life, bytes, sources);
      continue;
    }
    Raise(waits ? open : rebuilt, life.begin, life.end, bytes);
    for (int use : life.uses) Raise(waits ? open : rebuilt, use, use + 1, -bytes);
  }
  int64_t open_now = 0;
  int64_t rebuilt_now = 0;
  int64_t sources_now = 0;
  for (size_t i = 0; i < runs.size(); ++i) {
    usage[i].open = open_now += open[i];
    usage[i].rebuilt = rebuilt_now += rebuilt[i];
    usage[i].sources = sources_now += sources[i];
  }
  return usage;
}

LayerwiseBound BoundLayerwise(const Program& program, bool in_place) {
  LayerwiseBound bound;
  const std::vector<RunUsage> usage =
      UsagePerRun(program, FindLiveness(program, ProgramOrder(program), in_place));
  for (const Step& step : program.steps) {
    const RunUsage& at = usage[step.id.index()];
    const int64_t working_set = at.working_set + HandedOnBytes(program, step);
    bound.l_peak = std::max(bound.l_peak, working_set);
    if (working_set + at.open <= bound.bytes) continue;
    bound.bytes = working_set + at.open;
    bound.step = step.id;
  }
  return bound;
}

}  // namespace neap
