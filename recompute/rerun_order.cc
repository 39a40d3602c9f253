#include "neap/recompute/rerun_order.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace neap {
namespace {

constexpr int64_t kSmall = 8;  // so many times fits a small tensor into its step's largest one

// Walks over the program's steps, and inserts reruns where a backward step reads a tensor that was
// dropped and is not rebuilt.
class RerunWriter {
 public:
  RerunWriter(const Program& program, const Segments& segments, const std::vector<RerunMode>& modes)
      : program_(program),
        segments_(segments),
        modes_(modes),
        is_rebuilt_(program.tensors.size(), false) {}

  ComputeSequence Write() {
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
  // Consecutive backward steps of a layer form a group; a forward step is one by itself.
  size_t EndOfGroup(size_t begin) const {
    const std::vector<Step>& steps = program_.steps;
    size_t end = begin + 1;
    if (steps[begin].phase == Phase::kForward) return end;
    while (end < steps.size() && steps[end].layer == steps[begin].layer) ++end;
    return end;
  }

  bool IsMissing(TensorId tensor) const {
    return segments_.dropped[tensor.index()] && !is_rebuilt_[tensor.index()];
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
      if (!IsMissing(tensor)) continue;  // an earlier rerun has written it too
      const size_t segment = *segments_.of_step[segments_.producer[tensor.index()]->index()];
      const bool all = modes_[segment] == RerunMode::kSpeedCentric;
      const std::vector<StepId> chain = Chain(all ? WantedOf(segment) : std::vector{tensor});
      for (StepId step : chain) Rerun(step);
    }
  }

  void Rerun(StepId step) {
    runs_.push_back({.step = step, .recompute = true});
    for (TensorId made : RunWrites(program_, runs_.back())) {
      is_rebuilt_[made.index()] = true;
      in_memory_.push_back(made);
    }
  }

  // The tensors of a segment that backward reads.
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

  // The steps that must run to rebuild `tensors`, in order.
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

  // Whether the tensor is a mask, the index of a pooling or the like, and takes so little of what
  // its step touches that it is not worth another rerun.
  bool IsSmall(TensorId id) const {
    const Tensor& tensor = program_.tensor(id);
    if (tensor.role != Role::kSaved || program_.options.accounting == Accounting::kPaper)
      return false;
    const Step& producer = program_.steps[segments_.producer[id.index()]->index()];
    int64_t largest = 0;
    for (const auto* uses : {&producer.reads, &producer.writes}) {
      for (const Use& use : *uses)
        largest = std::max(largest, program_.tensor(use.tensor).spec.size_bytes());
    }
    return kSmall * tensor.spec.size_bytes() <= largest;
  }

  // Memory-centric segments: drops what was rebuilt, except for small tensors, and those that this
  // group of steps has read and the next one reads too.
  void Forget(size_t begin, size_t end) {
    if (in_memory_.empty()) return;
    std::vector<TensorId> read_again;
    std::vector<TensorId> read;
    ForEachRead(begin, end, [&](TensorId tensor) { read.push_back(tensor); });
    const size_t next_end = end < program_.steps.size() ? EndOfGroup(end) : end;
    ForEachRead(end, next_end, [&](TensorId tensor) {
      if (std::find(read.begin(), read.end(), tensor) != read.end()) read_again.push_back(tensor);
    });
    std::vector<TensorId> kept;
    for (TensorId tensor : in_memory_) {
      const size_t segment = *segments_.of_step[segments_.producer[tensor.index()]->index()];
      if (modes_[segment] != RerunMode::kMemoryCentric || IsSmall(tensor)) continue;
      if (std::find(read_again.begin(), read_again.end(), tensor) != read_again.end()) {
        kept.push_back(tensor);
      } else {
        is_rebuilt_[tensor.index()] = false;
      }
    }
    in_memory_ = std::move(kept);
  }

  const Program& program_;
  const Segments& segments_;
  const std::vector<RerunMode>& modes_;
  ComputeSequence runs_;
  std::vector<bool> is_rebuilt_;     // by TensorId, for dropped tensors: a rerun's result is there
  std::vector<TensorId> in_memory_;  // the rebuilt tensors that Forget() may drop
};

}  // namespace

ComputeSequence OrderReruns(const Program& program, const Segments& segments,
                            const std::vector<RerunMode>& modes) {
  return RerunWriter(program, segments, modes).Write();
}

ComputeSequence OrderReruns(const Program& program, const Segments& segments, RerunMode mode) {
  return OrderReruns(program, segments, std::vector<RerunMode>(segments.steps.size(), mode));
}

int64_t ExtraForwards(const ComputeSequence& runs) {
  return std::count_if(runs.begin(), runs.end(), [](const Run& run) { return run.recompute; });
}

}  // namespace neap
