#include "neap/memory/transfer/residency.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace neap {
namespace {

// Walks over the runs once, and writes down when each life is in the arena.
class StayWriter {
 public:
  StayWriter(const Program& program, const Liveness& liveness,
             const std::vector<int64_t>& workspaces, const ResidencyRules& rules)
      : program_(program), liveness_(liveness), workspaces_(workspaces), rules_(rules) {
    lives_.resize(liveness.lives.size());
    for (const auto& replaced : liveness.replaces) {
      if (replaced.has_value()) lives_[*replaced].is_replaced = true;
    }
    for (size_t i = 0; i < lives_.size(); ++i) {
      lives_[i].on_host = IsFromHost(i);
      lives_[i].is_fixed = IsPersistent(tensor(i).role) && !lives_[i].on_host;
    }
    cache_ = MakeTensorCache(rules.eviction, lives_.size());
  }

  Residency Write() {
    for (size_t i = 0; i < liveness_.runs.size(); ++i) Step(static_cast<int>(i));
    for (size_t life = 0; life < lives_.size(); ++life) {
      if (lives_[life].stay.has_value()) End(life, static_cast<int>(liveness_.runs.size()));
    }
    return std::move(result_);
  }

 private:
  struct State {
    std::optional<size_t> stay;  // while it is in the arena
    bool on_host = false;        // the host has its current value
    bool is_replaced = false;    // another life takes over its bytes after its last use
    bool is_fixed = false;       // it has a place of its own, and no stays
    int complete_at = 0;         // one past the run that made its current value; 0 if it was given
    size_t next_use = 0;         // index into its uses
    size_t next_change = 0;      // index into its changes
  };

  const Lifetime& life(size_t i) const { return liveness_.lives[i]; }
  const Tensor& tensor(size_t i) const { return program_.tensor(life(i).tensor); }

  bool IsFromHost(size_t i) const { return tensor(i).home == Home::kHost; }
  bool IsEager(TensorId tensor) const {
    return !rules_.eager.empty() && rules_.eager[tensor.index()];
  }

  void Step(int position) {
    BeginLives(position);
    operands_.clear();
    for (size_t i : liveness_.UsedBy(position)) {
      if (!lives_[i].is_fixed) operands_.push_back(i);
    }
    Check(position);
    result_.usage.push_back(used_);
    result_.usage.back().bytes += workspaces_[static_cast<size_t>(position)];
    for (size_t i : operands_) NoteUse(i, position);
    for (size_t i : operands_) AfterUse(i, position);
  }

  // The batch is in the arena from the beginning. Inputs of later sub-batches may leave it until
  // they are used.
  void BeginLives(int position) {
    for (; next_life_ < lives_.size() && life(next_life_).begin == position; ++next_life_) {
      if (!IsBatch(tensor(next_life_).role)) continue;
      Begin(next_life_, position);
      if (IsLaterInput(life(next_life_).tensor))
        cache_->In(next_life_, life(next_life_).uses.front());
    }
  }
  bool IsLaterInput(TensorId id) const {
    if (program_.tensor(id).role != Role::kInput) return false;
    return std::any_of(program_.feeds.begin(), program_.feeds.end(), [id](const Port& feed) {
      return std::find(feed.parts.begin() + 1, feed.parts.end(), id) != feed.parts.end();
    });
  }

  // Check (Algorithm 2), for all operands of a run at once. A hit needs nothing now; what misses is
  // summed up, the cache makes room for it and for the run's workspace, and the stays begin.
  void Check(int position) {
    Usage missing = {.bytes = workspaces_[static_cast<size_t>(position)]};
    for (size_t i : operands_) {
      if (!lives_[i].stay.has_value() && !TakesOver(i, position)) missing += UsageOf(tensor(i));
    }
    Out(position, missing);
    for (size_t i : operands_) {
      if (!lives_[i].stay.has_value()) Begin(i, position);
    }
  }

  // LRU.out (Algorithm 2): operands are locked, and so is what the policy does not let go.
  void Out(int position, const Usage& missing) {
    if (rules_.evictable == Evictable::kNone || position == 0) return;
    const auto is_locked = [&](size_t i) {
      return std::binary_search(operands_.begin(), operands_.end(), i) ||
             (rules_.evictable == Evictable::kOnlyCopied && !lives_[i].on_host);
    };
    const auto size_of = [&](size_t i) { return UsageOf(tensor(i)); };
    for (size_t victim : cache_->Out(Excess(used_, missing, rules_.limit), size_of, is_locked))
      MoveToHost(victim, position);
  }

  bool TakesOver(size_t i, int position) const {
    return life(i).begin == position && liveness_.replaces[i].has_value();
  }

  void Begin(size_t i, int position) {
    Stay stay = {
        .tensor = life(i).tensor, .life = i, .begin = position, .fetched = lives_[i].on_host};
    if (TakesOver(i, position)) {
      stay.replaces = lives_[*liveness_.replaces[i]].stay;
    } else {
      used_ += UsageOf(tensor(i));
    }
    result_.stays.push_back(stay);
    lives_[i].stay = result_.stays.size() - 1;
  }

  void NoteUse(size_t i, int position) {
    State& state = lives_[i];
    const std::vector<int>& changes = life(i).changes;
    if (state.next_change < changes.size() && changes[state.next_change] == position) {
      state.complete_at = position + 1;
      state.on_host = false;
      ++state.next_change;
    }
    ++state.next_use;
  }

  // After the run an operand is freed, is offloaded, or goes to the front of the cache: LRU.in for
  // a miss, the move to the front for a hit.
  void AfterUse(size_t i, int position) {
    const bool is_last_use = lives_[i].next_use == life(i).uses.size();
    if (is_last_use && IsFromHost(i)) return MoveToHost(i, position + 1);
    if (is_last_use) {
      const bool is_kept = rules_.keep_all || life(i).end > position + 1;
      if (!is_kept || lives_[i].is_replaced) return End(i, position + 1);
      return cache_->Remove(i);  // a result of inference: nothing would fetch it again
    }
    const int next = life(i).uses[lives_[i].next_use];
    if (IsOffloadedAtOnce(i, position, next)) return MoveToHost(i, position + 1);
    if (IsCached(tensor(i).role)) cache_->In(i, next);
  }

  // Eager tensors are offloaded between forward and backward of their sub-batch; tensors
  // from the host whenever there is a run between two uses, unless the cache may keep them.
  bool IsOffloadedAtOnce(size_t i, int position, int next_use) const {
    if (IsFromHost(i) && rules_.evictable != Evictable::kAll && next_use > position + 1)
      return true;
    return IsEager(life(i).tensor) && IsInForward(position) && !IsInForward(next_use);
  }
  bool IsInForward(int position) const {
    const Run& run = liveness_.runs[static_cast<size_t>(position)];
    return !run.recompute && neap::IsInForward(program_.steps[run.step.index()]);
  }

  // Ends the stay at `position`. The value is copied to the host unless the host has it.
  void MoveToHost(size_t i, int position) {
    State& state = lives_[i];
    if (!state.on_host) result_.stays[*state.stay].offload_at = state.complete_at;
    state.on_host = true;
    End(i, position);
  }

  void End(size_t i, int position) {
    result_.stays[*lives_[i].stay].end = position;
    lives_[i].stay.reset();
    cache_->Remove(i);
    if (!lives_[i].is_replaced || life(i).end != position) used_ -= UsageOf(tensor(i));
  }

  const Program& program_;
  const Liveness& liveness_;
  const std::vector<int64_t>& workspaces_;
  const ResidencyRules& rules_;
  Residency result_;
  std::vector<State> lives_;            // by life
  std::unique_ptr<TensorCache> cache_;  // of lives
  std::vector<size_t> operands_;  // of the current run: lives without a fixed place, ascending
  size_t next_life_ = 0;
  Usage used_;  // without workspaces
};

}  // namespace

Residency DecideResidency(const Program& program, const Liveness& liveness,
                          const std::vector<int64_t>& workspaces, const ResidencyRules& rules) {
  return StayWriter(program, liveness, workspaces, rules).Write();
}

}  // namespace neap
