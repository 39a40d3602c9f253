#include "neap/recompute/segments.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace neap {
namespace {

// The steps that write and read each tensor, in forward and backward.
struct Readers {
  std::vector<std::optional<StepId>> producer;  // by TensorId: forward steps only
  std::vector<std::vector<StepId>> forward;     // by TensorId
  std::vector<bool> in_backward;                // by TensorId: some backward step reads it
  std::vector<bool> changed;  // by TensorId: some step adds to it, such as a sum over ranks
};

Readers FindReaders(const Program& program) {
  const size_t count = program.tensors.size();
  Readers readers = {std::vector<std::optional<StepId>>(count),
                     std::vector<std::vector<StepId>>(count), std::vector<bool>(count, false),
                     std::vector<bool>(count, false)};
  for (const Step& step : program.steps) {
    const bool forward = step.phase == Phase::kForward;
    for (const Use& use : step.accumulates) readers.changed[use.tensor.index()] = true;
    for (const Use& use : step.reads) {
      if (forward) {
        readers.forward[use.tensor.index()].push_back(step.id);
      } else {
        readers.in_backward[use.tensor.index()] = true;
      }
    }
    if (!forward) continue;
    for (const Use& use : step.writes) readers.producer[use.tensor.index()] = step.id;
  }
  return readers;
}

// The loss runs only once: it reads labels, and writes metrics that persist. So does a step to
// whose result another one adds, because a rerun would undo that.
bool CanRunAgain(const Program& program, const Readers& readers, const Step& step) {
  const auto role = [&](const Use& use) { return program.tensor(use.tensor).role; };
  return step.phase == Phase::kForward &&
         std::none_of(step.reads.begin(), step.reads.end(),
                      [&](const Use& use) { return role(use) == Role::kLabel; }) &&
         std::none_of(step.writes.begin(), step.writes.end(), [&](const Use& use) {
           return IsPersistent(role(use)) || readers.changed[use.tensor.index()];
         });
}

const LayerTraits& TraitsOf(const Program& program, const Step& step) {
  return program.layers[step.layer.index()].traits;
}

std::vector<TensorId> OutputsOf(const Step& step) {
  std::vector<TensorId> outputs;
  for (const Use& use : step.writes) {
    if (use.operand.slot == Slot::kOutput) outputs.push_back(use.tensor);
  }
  return outputs;
}

int64_t WrittenBytes(const Program& program, const Step& step) {
  int64_t bytes = 0;
  for (const Use& use : step.writes) bytes += program.tensor(use.tensor).spec.size_bytes();
  return bytes;
}

// The step that is the only reader of `kept`, backward included, provided that it has a single
// result, which is no larger than `kept`.
std::optional<StepId> Successor(const Program& program, const Readers& readers, TensorId kept) {
  const std::vector<StepId>& forward = readers.forward[kept.index()];
  if (forward.size() != 1 || readers.in_backward[kept.index()]) return std::nullopt;
  const Step& step = program.steps[forward.front().index()];
  const bool of_one_input = std::none_of(step.reads.begin(), step.reads.end(), [&](const Use& use) {
    return use.operand.slot == Slot::kInput && use.operand.index > 0 &&
           !IsGiven(program.tensor(use.tensor).role);
  });
  if (!CanRunAgain(program, readers, step) || TraitsOf(program, step).checkpoint || !of_one_input ||
      OutputsOf(step).size() != 1 ||
      WrittenBytes(program, step) > program.tensor(kept).spec.size_bytes()) {
    return std::nullopt;
  }
  return step.id;
}

// By TensorId: the results that are kept of the layers for which `wanted` is true.
std::vector<bool> Results(const Program& program, const Readers& readers, WantedLayers wanted) {
  std::vector<bool> kept(program.tensors.size(), false);
  for (const Step& step : program.steps) {
    if (step.phase != Phase::kForward || !wanted(TraitsOf(program, step))) continue;
    for (TensorId result : OutputsOf(step)) {
      while (const std::optional<StepId> successor = Successor(program, readers, result))
        result = OutputsOf(program.steps[successor->index()]).front();
      kept[result.index()] = true;
    }
  }
  return kept;
}

class UnionFind {
 public:
  explicit UnionFind(size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), size_t{0});
  }
  size_t Find(size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void Join(size_t a, size_t b) { parent_[Find(a)] = Find(b); }

 private:
  std::vector<size_t> parent_;
};

// Puts the steps that may be rerun into segments, one for each value of `group_of`.
template <typename GroupOf>
void Collect(const Program& program, const std::vector<bool>& again, const GroupOf& group_of,
             Segments& segments) {
  segments.of_step.resize(program.steps.size());
  std::vector<std::optional<size_t>> segment_of_group(program.steps.size());
  for (const Step& step : program.steps) {
    if (!again[step.id.index()]) continue;
    std::optional<size_t>& segment = segment_of_group[group_of(step.id)];
    if (!segment.has_value()) {
      segment = segments.steps.size();
      segments.steps.emplace_back();
    }
    segments.of_step[step.id.index()] = segment;
    segments.steps[*segment].push_back(step.id);
  }
}

}  // namespace

Segments CheckpointSegments(const Program& program) {
  const Readers readers = FindReaders(program);
  const auto is_checkpoint = [](const LayerTraits& layer) { return layer.checkpoint; };
  Segments segments = {.checkpoints = Results(program, readers, is_checkpoint),
                       .dropped = std::vector<bool>(program.tensors.size(), false),
                       .in_backward = readers.in_backward,
                       .producer = readers.producer};
  std::vector<bool> again(program.steps.size(), false);
  for (const Step& step : program.steps) {
    const std::vector<TensorId> outputs = OutputsOf(step);
    const bool is_kept = std::any_of(outputs.begin(), outputs.end(), [&](TensorId output) {
      return segments.checkpoints[output.index()];
    });
    again[step.id.index()] = CanRunAgain(program, readers, step) &&
                             !TraitsOf(program, step).checkpoint && !outputs.empty() && !is_kept;
    if (again[step.id.index()]) SetDropped(step, true, segments);
  }
  UnionFind groups(program.steps.size());
  for (const Step& step : program.steps) {
    if (!again[step.id.index()]) continue;
    for (const Use& use : step.reads) {
      if (segments.dropped[use.tensor.index()])
        groups.Join(step.id.index(), readers.producer[use.tensor.index()]->index());
    }
  }
  Collect(
      program, again, [&](StepId step) { return groups.Find(step.index()); }, segments);
  return segments;
}

Segments EvenSegments(const Program& program) {
  const Readers readers = FindReaders(program);
  Segments segments = {.dropped = std::vector<bool>(program.tensors.size(), false),
                       .in_backward = readers.in_backward,
                       .producer = readers.producer};
  const auto count =
      static_cast<size_t>(std::count_if(program.steps.begin(), program.steps.end(),
                                        [](auto& step) { return step.phase == Phase::kForward; }));
  const double of_sub_batch =
      static_cast<double>(count) / static_cast<double>(program.options.sub_batches);
  const auto length = static_cast<size_t>(std::ceil(std::sqrt(of_sub_batch)));
  const auto group_of = [&](StepId step) { return step.index() / std::max<size_t>(1, length); };
  std::vector<bool> again(program.steps.size(), false);
  for (const Step& step : program.steps) {
    again[step.id.index()] = CanRunAgain(program, readers, step);
    if (again[step.id.index()]) SetDropped(step, true, segments);
  }
  // A tensor that crosses a cut is kept, and so is all that its step writes.
  for (const Step& step : program.steps) {
    if (step.phase != Phase::kForward) continue;
    for (const Use& use : step.reads) {
      const std::optional<StepId> producer = readers.producer[use.tensor.index()];
      if (!producer.has_value() || group_of(*producer) == group_of(step.id)) continue;
      again[producer->index()] = false;
      for (const Use& made : program.steps[producer->index()].writes)
        segments.dropped[made.tensor.index()] = false;
    }
  }
  Collect(program, again, group_of, segments);
  return segments;
}

Segments NothingDropped(const Program& program) {
  const Readers readers = FindReaders(program);
  Segments segments = {.dropped = std::vector<bool>(program.tensors.size(), false),
                       .in_backward = readers.in_backward,
                       .producer = readers.producer};
  std::vector<bool> again;
  for (const Step& step : program.steps) again.push_back(CanRunAgain(program, readers, step));
  Collect(
      program, again, [](StepId step) { return step.index(); }, segments);
  return segments;
}

void SetDropped(const Step& step, bool dropped, Segments& segments) {
  for (const Use& use : WritesOf(step, /*rerun=*/true))
    segments.dropped[use.tensor.index()] = dropped;
}

std::vector<bool> KeptResults(const Program& program, WantedLayers wanted) {
  return Results(program, FindReaders(program), wanted);
}

}  // namespace neap
