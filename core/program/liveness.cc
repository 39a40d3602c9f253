#include "neap/core/program/liveness.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace neap {
namespace {

class Prover {
 public:
  Prover(const Program& program, const ComputeSequence& runs, const std::vector<Lifetime>& lives)
      : program_(program),
        runs_(runs),
        lives_(lives),
        replaces_(lives.size()),
        latest_(program.tensors.size()),
        taken_(lives.size(), false) {}

  Replacements Prove() {
    size_t next = 0;
    for (size_t i = 0; i < runs_.size(); ++i) {
      const int position = static_cast<int>(i);
      for (; next < lives_.size() && lives_[next].begin == position; ++next)
        latest_[lives_[next].tensor.index()] = next;
      for (const auto& [written, read] : program_.steps[runs_[i].step.index()].in_place)
        Consider(position, written, read);
    }
    return std::move(replaces_);
  }

 private:
  void Consider(int position, TensorId written, TensorId read) {
    const std::optional<size_t> to = latest_[written.index()];
    const std::optional<size_t> from = latest_[read.index()];
    if (!to.has_value() || !from.has_value() || replaces_[*to].has_value() || taken_[*from] ||
        lives_[*to].begin != position || !MayReplace(position, *to, *from)) {
      return;
    }
    replaces_[*to] = from;
    taken_[*from] = true;
  }

  bool MayReplace(int position, size_t to, size_t from) const {
    const Tensor& written = program_.tensor(lives_[to].tensor);
    const Tensor& read = program_.tensor(lives_[from].tensor);
    return lives_[from].end == position + 1 && lives_[from].begin < position &&
           !IsGiven(read.role) && !IsGiven(written.role) &&
           read.spec.size_bytes() == written.spec.size_bytes() && ReadOnce(position, read.id);
  }

  // A kernel may overwrite this operand with the result, but not if another operand is the same
  // tensor (x + y + x).
  bool ReadOnce(int position, TensorId tensor) const {
    const std::vector<TensorId> reads = RunReads(program_, runs_[static_cast<size_t>(position)]);
    return std::count(reads.begin(), reads.end(), tensor) == 1;
  }

  const Program& program_;
  const ComputeSequence& runs_;
  const std::vector<Lifetime>& lives_;
  Replacements replaces_;
  std::vector<std::optional<size_t>> latest_;  // by TensorId: its lifetime at the current run
  std::vector<bool> taken_;                    // by lifetime
};

// Fills in which lives are used when.
void SortUses(Liveness& liveness) {
  std::vector<size_t>& begin = liveness.used_begin;
  begin.assign(liveness.runs.size() + 1, 0);
  for (const Lifetime& life : liveness.lives) {
    for (int position : life.uses) ++begin[static_cast<size_t>(position) + 1];
  }
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  liveness.used.resize(begin.back());
  std::vector<size_t> next = begin;
  for (size_t i = 0; i < liveness.lives.size(); ++i) {
    for (int position : liveness.lives[i].uses)
      liveness.used[next[static_cast<size_t>(position)]++] = i;
  }
}

}  // namespace

Replacements ProveInPlace(const Program& program, const ComputeSequence& runs,
                          const std::vector<Lifetime>& lives) {
  return Prover(program, runs, lives).Prove();
}

Liveness FindLiveness(const Program& program, ComputeSequence runs, bool in_place) {
  Liveness liveness = {.runs = std::move(runs)};
  liveness.lives = Lifetimes(program, liveness.runs);
  liveness.replaces = in_place ? ProveInPlace(program, liveness.runs, liveness.lives)
                               : Replacements(liveness.lives.size());
  SortUses(liveness);
  return liveness;
}

}  // namespace neap
