#include "neap/recompute/recompute.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "neap/recompute/layerwise_bound.h"
#include "neap/recompute/segments.h"

namespace neap {
namespace {

// Of a segment: rebuilt at once and kept until used, or for each step anew.
enum class Keep : uint8_t { kSpeed, kMemory };

// Walks the program and inserts reruns where a backward step reads what is not there.
class Sequencer {
 public:
  // `modes` by segment.
  Sequencer(const Program& program, const Segments& segments, const std::vector<Keep>& modes)
      : program_(program),
        segments_(segments),
        modes_(modes),
        is_there_(program.tensors.size(), false) {}

  ComputeSequence Make() {
    const std::vector<Step>& steps = program_.steps;
    for (size_t begin = 0; begin < steps.size();) {
      const size_t end = EndOfGroup(begin);
      if (steps[begin].phase != Phase::kForward) Rebuild(begin, end);
      for (size_t i = begin; i < end; ++i) runs_.push_back({steps[i].id});
      if (steps[begin].phase != Phase::kForward) Forget(begin, end);
      begin = end;
    }
    return std::move(runs_);
  }

 private:
  // The backward steps of a layer that follow each other count as one.
  size_t EndOfGroup(size_t begin) const {
    const std::vector<Step>& steps = program_.steps;
    size_t end = begin + 1;
    if (steps[begin].phase == Phase::kForward) return end;
    while (end < steps.size() && steps[end].layer == steps[begin].layer) ++end;
    return end;
  }

  bool IsMissing(TensorId tensor) const {
    return segments_.dropped[tensor.index()] && !is_there_[tensor.index()];
  }

  template <typename Do>
  void ForEachRead(size_t begin, size_t end, const Do& action) const {
    for (size_t i = begin; i < end && i < program_.steps.size(); ++i) {
      for (const Use& use : program_.steps[i].reads) action(use.tensor);
    }
  }

  void Rebuild(size_t begin, size_t end) {
    std::vector<TensorId> missing;
    ForEachRead(begin, end, [&](TensorId tensor) {
      if (IsMissing(tensor)) missing.push_back(tensor);
    });
    std::sort(missing.begin(), missing.end(), [&](TensorId a, TensorId b) {
      return *segments_.producer[a.index()] < *segments_.producer[b.index()];
    });
    for (TensorId tensor : missing) {
      if (!IsMissing(tensor)) continue;  // another's rerun has made it
      const size_t segment = *segments_.of_step[segments_.producer[tensor.index()]->index()];
      const bool all = modes_[segment] == Keep::kSpeed;
      const std::vector<StepId> chain = Chain(all ? WantedOf(segment) : std::vector{tensor});
      for (StepId step : chain) Rerun(step);
    }
  }

  void Rerun(StepId step) {
    runs_.push_back({.step = step, .recompute = true});
    for (TensorId made : RunWrites(program_, runs_.back())) {
      is_there_[made.index()] = true;
      rebuilt_.push_back(made);
    }
  }

  // What backward reads of a segment.
  std::vector<TensorId> WantedOf(size_t segment) const {
    std::vector<TensorId> wanted;
    for (StepId step : segments_.steps[segment]) {
      for (const Use& use : program_.steps[step.index()].writes) {
        const bool is_wanted = segments_.in_backward[use.tensor.index()];
        if (is_wanted && IsMissing(use.tensor)) wanted.push_back(use.tensor);
      }
    }
    return wanted;
  }

  // The steps that must run for `tensors` to be there, in order.
  std::vector<StepId> Chain(std::vector<TensorId> tensors) const {
    std::vector<StepId> chain;
    absl::flat_hash_set<StepId> in_chain;
    while (!tensors.empty()) {
      const TensorId tensor = tensors.back();
      tensors.pop_back();
      if (!IsMissing(tensor)) continue;
      const StepId producer = *segments_.producer[tensor.index()];
      if (!in_chain.insert(producer).second) continue;
      chain.push_back(producer);
      for (TensorId read : RunReads(program_, {.step = producer, .recompute = true}))
        tensors.push_back(read);
    }
    std::sort(chain.begin(), chain.end());
    return chain;
  }

  // Memory-centric: of what was rebuilt only that stays which this group of steps has read and the
  // next will.
  void Forget(size_t begin, size_t end) {
    std::vector<TensorId> stays;
    std::vector<TensorId> read;
    ForEachRead(begin, end, [&](TensorId tensor) { read.push_back(tensor); });
    const size_t next_end = end < program_.steps.size() ? EndOfGroup(end) : end;
    ForEachRead(end, next_end, [&](TensorId tensor) {
      if (std::find(read.begin(), read.end(), tensor) != read.end()) stays.push_back(tensor);
    });
    std::vector<TensorId> kept;
    for (TensorId tensor : rebuilt_) {
      const size_t segment = *segments_.of_step[segments_.producer[tensor.index()]->index()];
      const bool keep = modes_[segment] == Keep::kSpeed ||
                        std::find(stays.begin(), stays.end(), tensor) != stays.end();
      if (!keep) is_there_[tensor.index()] = false;
      if (keep && modes_[segment] == Keep::kMemory) kept.push_back(tensor);
    }
    rebuilt_ = std::move(kept);
  }

  const Program& program_;
  const Segments& segments_;
  const std::vector<Keep>& modes_;
  ComputeSequence runs_;
  std::vector<bool> is_there_;     // by TensorId: of dropped tensors, whether it is rebuilt
  std::vector<TensorId> rebuilt_;  // in memory-centric segments, there now
};

bool CanBeInPlace(const Program& program) {
  return program.options.accounting == Accounting::kExact;
}

// In place wherever that can be.
Liveness LivenessOf(const Program& program, ComputeSequence runs) {
  return FindLiveness(program, std::move(runs), CanBeInPlace(program));
}

// Segments of which something rebuilt is in memory where the usage exceeds the bound.
std::vector<size_t> SegmentsAbove(const Program& program, const Segments& segments,
                                  const Liveness& liveness, int64_t bound) {
  const ComputeSequence& runs = liveness.runs;
  std::vector<int> above = {0};  // positions above the bound, before each
  for (const RunUsage& at : UsagePerRun(program, liveness))
    above.push_back(above.back() + (at.sum() + at.sources > bound ? 1 : 0));
  std::vector<size_t> found;
  for (const Lifetime& life : liveness.lives) {
    if (!segments.dropped[life.tensor.index()]) continue;
    if (!runs[static_cast<size_t>(life.begin)].recompute) continue;
    if (above[static_cast<size_t>(life.end)] == above[static_cast<size_t>(life.begin)]) continue;
    found.push_back(*segments.of_step[runs[static_cast<size_t>(life.begin)].step.index()]);
  }
  return found;
}

// Begins with speed-centric everywhere and gives up on the segments that it would cost too much
// memory in, until none does.
ComputeSequence CostAware(const Program& program, const Segments& segments, int64_t bound) {
  std::vector<Keep> modes(segments.steps.size(), Keep::kSpeed);
  while (true) {
    Liveness liveness = LivenessOf(program, Sequencer(program, segments, modes).Make());
    bool changed = false;
    for (size_t segment : SegmentsAbove(program, segments, liveness, bound)) {
      changed = changed || modes[segment] == Keep::kSpeed;
      modes[segment] = Keep::kMemory;
    }
    if (!changed) return std::move(liveness.runs);
  }
}

ComputeSequence WithAll(const Program& program, const Segments& segments, Keep keep) {
  const std::vector<Keep> modes(segments.steps.size(), keep);
  return Sequencer(program, segments, modes).Make();
}

// Of the reruns [first, last), the one with the smallest result.
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

// Of each group of reruns that exceeds the bound, the step with the smallest result beyond.
std::vector<StepId> SmallestBeyond(const Program& program, const Liveness& liveness,
                                   int64_t bound) {
  const ComputeSequence& runs = liveness.runs;
  const std::vector<RunUsage> usage = UsagePerRun(program, liveness);
  std::vector<StepId> found;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].recompute || usage[i].sum() <= bound) continue;
    const size_t first = i;
    while (i < runs.size() && runs[i].recompute) ++i;
    found.push_back(*SmallestResult(program, runs, first, i));
  }
  return found;
}

// Makes a checkpoint of what the step writes. False if that is one.
bool MakeCheckpoint(const Step& step, Segments& segments) {
  bool changed = false;
  for (const Use& use : step.writes) {
    changed = changed || segments.dropped[use.tensor.index()];
    segments.dropped[use.tensor.index()] = false;
    segments.checkpoints[use.tensor.index()] = true;
  }
  return changed;
}

// Makes checkpoints until memory-centric reruns are within the bound, or cannot be.
void MeetBound(const Program& program, int64_t bound, Segments& segments) {
  bool changed = true;
  while (changed) {
    changed = false;
    const Liveness liveness = LivenessOf(program, WithAll(program, segments, Keep::kMemory));
    for (StepId step : SmallestBeyond(program, liveness, bound))
      changed = MakeCheckpoint(program.steps[step.index()], segments) || changed;
  }
}

}  // namespace

RunOrder OrderRuns(const Program& program, Recomputation recomputation) {
  if (recomputation == Recomputation::kNone || program.options.mode == Mode::kInference)
    return {.runs = ProgramOrder(program)};
  if (recomputation == Recomputation::kEvenSegments)
    return {.runs = WithAll(program, EvenSegments(program), Keep::kSpeed)};
  const int64_t bound = BoundLayerwise(program, CanBeInPlace(program)).bytes;
  Segments segments = CheckpointSegments(program);
  MeetBound(program, bound, segments);
  RunOrder order = {.checkpoints = segments.checkpoints};
  switch (recomputation) {
    case Recomputation::kCostAware:
      order.runs = CostAware(program, segments, bound);
      break;
    case Recomputation::kMemoryCentric:
      order.runs = WithAll(program, segments, Keep::kMemory);
      break;
    default:
      order.runs = WithAll(program, segments, Keep::kSpeed);
      break;
  }
  return order;
}

int64_t ExtraForwards(const ComputeSequence& runs) {
  return std::count_if(runs.begin(), runs.end(), [](const Run& run) { return run.recompute; });
}

}  // namespace neap
