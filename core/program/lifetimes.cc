#include "neap/core/program/lifetimes.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "neap/core/program/results.h"

namespace neap {
namespace {

class LifeWriter {
 public:
  LifeWriter(const Program& program, int run_count)
      : program_(program), open_(program.tensors.size()) {
    for (const Tensor& tensor : program.tensors) {
      if (!IsPersistent(tensor.role)) continue;
      lives_.push_back({.tensor = tensor.id, .begin = 0, .end = run_count});
      open_[tensor.id.index()] = lives_.size() - 1;
    }
  }

  void Touch(TensorId tensor, int position, bool changes) {
    std::optional<size_t>& open = open_[tensor.index()];
    if (!open.has_value()) Begin(tensor, 0);
    Lifetime& life = lives_[*open];
    life.end = std::max(life.end, position + 1);
    if (life.uses.empty() || life.uses.back() != position) life.uses.push_back(position);
    if (changes && (life.changes.empty() || life.changes.back() != position))
      life.changes.push_back(position);
  }
  void Define(TensorId tensor, int position) {
    if (!IsGiven(program_.tensor(tensor).role)) Begin(tensor, position);
    Touch(tensor, position, true);
  }

  // Without further uses.
  void KeepUntil(int end, TensorId tensor) {
    const std::optional<size_t>& open = open_[tensor.index()];
    if (open.has_value()) lives_[*open].end = end;
  }

  std::vector<Lifetime> Finish() {
    std::sort(lives_.begin(), lives_.end(), [](const Lifetime& a, const Lifetime& b) {
      return std::tuple(a.begin, a.tensor.value) < std::tuple(b.begin, b.tensor.value);
    });
    return std::move(lives_);
  }

 private:
  void Begin(TensorId tensor, int position) {
    lives_.push_back({.tensor = tensor, .begin = position, .end = position});
    open_[tensor.index()] = lives_.size() - 1;
  }

  const Program& program_;
  std::vector<std::optional<size_t>> open_;  // by TensorId: its latest lifetime
  std::vector<Lifetime> lives_;
};

}  // namespace

ComputeSequence ProgramOrder(const Program& program) {
  ComputeSequence runs;
  runs.reserve(program.steps.size());
  for (const Step& step : program.steps) runs.push_back({step.id});
  return runs;
}

std::vector<TensorId> RunReads(const Program& program, const Run& run) {
  const Step& step = program.steps[run.step.index()];
  const std::vector<Use>& reads = ReadsOf(step, run.recompute);
  std::vector<TensorId> tensors;
  tensors.reserve(reads.size() + step.accumulates.size());
  for (const Use& use : reads) tensors.push_back(use.tensor);
  if (run.recompute) return tensors;
  for (const Use& use : step.accumulates) tensors.push_back(use.tensor);
  return tensors;
}

std::vector<TensorId> RunWrites(const Program& program, const Run& run) {
  const Step& step = program.steps[run.step.index()];
  const std::vector<Use> writes = WritesOf(step, run.recompute);
  std::vector<TensorId> tensors;
  tensors.reserve(writes.size());
  for (const Use& use : writes) tensors.push_back(use.tensor);
  return tensors;
}

std::vector<Lifetime> Lifetimes(const Program& program, const ComputeSequence& runs) {
  LifeWriter writer(program, static_cast<int>(runs.size()));
  for (size_t i = 0; i < runs.size(); ++i) {
    const int position = static_cast<int>(i);
    const Step& step = program.steps[runs[i].step.index()];
    for (TensorId tensor : RunWrites(program, runs[i])) writer.Define(tensor, position);
    for (TensorId tensor : RunReads(program, runs[i])) writer.Touch(tensor, position, false);
    if (runs[i].recompute) continue;
    for (const Use& use : step.accumulates) writer.Touch(use.tensor, position, true);
  }
  for (TensorId result : KeptResults(program))
    writer.KeepUntil(static_cast<int>(runs.size()), result);
  return writer.Finish();
}

}  // namespace neap
