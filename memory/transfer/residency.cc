#include "neap/memory/transfer/residency.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "neap/core/base/units.h"
#include "neap/core/plan/plan.h"

namespace neap {
namespace {

class Walker {
 public:
  Walker(const Program& program, const Liveness& liveness, const std::vector<int64_t>& workspaces,
         const ResidencyRules& rules)
      : program_(program),
        liveness_(liveness),
        workspaces_(workspaces),
        rules_(rules),
        turn_(TurningPoint(program, liveness.runs)) {
    result_.travels = rules.travels;
    lives_.resize(liveness.lives.size());
    for (const auto& replaced : liveness.replaces) {
      if (replaced.has_value()) lives_[*replaced].is_replaced = true;
    }
    for (size_t i = 0; i < lives_.size(); ++i) lives_[i].on_host = Travels(life(i).tensor);
    latest_.resize(program.tensors.size());
    order_ = MakeEvictionOrder(rules.eviction, lives_.size());
  }

  Residency Walk() {
    for (size_t i = 0; i < liveness_.runs.size(); ++i) Step(static_cast<int>(i));
    for (size_t life = 0; life < lives_.size(); ++life) {
      if (lives_[life].stay.has_value()) Stop(life, static_cast<int>(liveness_.runs.size()));
    }
    return std::move(result_);
  }

 private:
  struct State {
    std::optional<size_t> stay;  // while it is in the arena
    bool on_host = false;        // with its current value
    bool is_replaced = false;    // its bytes go to another life in the end
    int last_change = -1;        // the run that made its current value; -1: it was given
    size_t next_use = 0;         // index into its uses
  };

  const Lifetime& life(size_t i) const { return liveness_.lives[i]; }
  const Tensor& tensor(size_t i) const { return program_.tensor(life(i).tensor); }

  bool Travels(TensorId tensor) const {
    return !rules_.travels.empty() && rules_.travels[tensor.index()];
  }
  // Not among the stays.
  bool IsFixed(TensorId tensor) const {
    return IsPersistent(program_.tensor(tensor).role) && !Travels(tensor);
  }

  void Step(int position) {
    BeginLives(position);
    const std::vector<size_t> touched = Touched(position);
    MakeRoom(position, touched);
    for (size_t i : touched) {
      if (!lives_[i].stay.has_value()) Begin(i, position);
    }
    Usage usage = used_;
    usage.bytes += workspaces_[static_cast<size_t>(position)];
    result_.usage.push_back(usage);
    for (size_t i : touched) Note(i, position);
    for (size_t i : touched) After(i, position);
  }

  // Those that are given are in the arena from the beginning.
  void BeginLives(int position) {
    for (; next_life_ < lives_.size() && life(next_life_).begin == position; ++next_life_) {
      latest_[life(next_life_).tensor.index()] = next_life_;
      if (!IsPersistent(tensor(next_life_).role) && IsGiven(tensor(next_life_).role))
        Begin(next_life_, position);
    }
  }

  std::vector<size_t> Touched(int position) const {
    const Run& run = liveness_.runs[static_cast<size_t>(position)];
    std::vector<size_t> touched;
    for (const auto& tensors : {RunReads(program_, run), RunWrites(program_, run)}) {
      for (TensorId id : tensors) {
        if (!IsFixed(id)) touched.push_back(*latest_[id.index()]);
      }
    }
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    return touched;
  }

  // Alg. 2, LRU.out: from the tail, until what is missing fits.
  void MakeRoom(int position, const std::vector<size_t>& touched) {
    if (rules_.may_leave == MayLeave::kNone || position == 0) return;
    Usage missing = {.bytes = workspaces_[static_cast<size_t>(position)]};
    for (size_t i : touched) {
      if (lives_[i].stay.has_value() || TakesOver(i, position)) continue;
      missing.bytes += UsageOf(tensor(i)).bytes;
      missing.activation_bytes += UsageOf(tensor(i)).activation_bytes;
    }
    const auto is_locked = [&](size_t i) {
      return std::binary_search(touched.begin(), touched.end(), i) ||
             (rules_.may_leave == MayLeave::kOnlyCopied && !lives_[i].on_host);
    };
    const auto exceeds = [](int64_t used, int64_t more, int64_t limit) {
      return more > limit - used;
    };
    while (
        exceeds(used_.bytes, missing.bytes, rules_.limit.bytes) ||
        exceeds(used_.activation_bytes, missing.activation_bytes, rules_.limit.activation_bytes)) {
      const std::optional<size_t> victim = order_->Victim(is_locked);
      if (!victim.has_value()) return;
      Leave(*victim, position);
    }
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
      Add(i, +1);
    }
    result_.stays.push_back(stay);
    lives_[i].stay = result_.stays.size() - 1;
  }

  void Note(size_t i, int position) {
    State& state = lives_[i];
    const std::vector<int>& changes = life(i).changes;
    if (std::binary_search(changes.begin(), changes.end(), position)) {
      state.last_change = position;
      state.on_host = false;
    }
    ++state.next_use;
  }

  void After(size_t i, int position) {
    const bool is_last_use = lives_[i].next_use == life(i).uses.size();
    if (is_last_use && Travels(life(i).tensor)) return Leave(i, position + 1);
    if (is_last_use) {
      if (!rules_.keep_all || lives_[i].is_replaced) Stop(i, position + 1);
      return;
    }
    const int next = life(i).uses[lives_[i].next_use];
    if (Travels(life(i).tensor) && rules_.may_leave != MayLeave::kAll && next > position + 1)
      return Leave(i, position + 1);
    const bool is_eager = !rules_.eager.empty() && rules_.eager[life(i).tensor.index()];
    if (is_eager && position < turn_ && next >= turn_) return Leave(i, position + 1);
    const Role role = tensor(i).role;
    if (CountsAsActivation(role) || role == Role::kInput || IsPersistent(role))
      order_->Touch(i, next);
  }

  void Leave(size_t i, int position) {
    State& state = lives_[i];
    if (!state.on_host) result_.stays[*state.stay].offload_after = state.last_change;
    state.on_host = true;
    Stop(i, position);
  }

  void Stop(size_t i, int position) {
    result_.stays[*lives_[i].stay].end = position;
    lives_[i].stay.reset();
    order_->Remove(i);
    if (!lives_[i].is_replaced || life(i).end != position) Add(i, -1);
  }

  void Add(size_t i, int sign) {
    const Usage usage = UsageOf(tensor(i));
    used_.bytes += sign * usage.bytes;
    used_.activation_bytes += sign * usage.activation_bytes;
  }

  const Program& program_;
  const Liveness& liveness_;
  const std::vector<int64_t>& workspaces_;
  const ResidencyRules& rules_;
  int turn_;
  Residency result_;
  std::vector<State> lives_;                   // by life
  std::vector<std::optional<size_t>> latest_;  // by TensorId: its life at the run at hand
  std::unique_ptr<EvictionOrder> order_;       // of lives
  size_t next_life_ = 0;
  Usage used_;
};

}  // namespace

Residency DecideResidency(const Program& program, const Liveness& liveness,
                          const std::vector<int64_t>& workspaces, const ResidencyRules& rules) {
  return Walker(program, liveness, workspaces, rules).Walk();
}

int TurningPoint(const Program& program, const ComputeSequence& runs) {
  const auto turn = std::find_if(runs.begin(), runs.end(), [&](const Run& run) {
    return run.recompute || program.steps[run.step.index()].phase != Phase::kForward;
  });
  return static_cast<int>(turn - runs.begin());
}

std::vector<bool> Travellers(const Program& program) {
  std::vector<bool> travels(program.tensors.size(), false);
  for (const Tensor& tensor : program.tensors) {
    travels[tensor.id.index()] = (tensor.role == Role::kParam || tensor.role == Role::kOptimizer) &&
                                 tensor.spec.size_bytes() >= kSmallestTravellerBytes;
  }
  return travels;
}

Usage UsageOf(const Tensor& tensor) {
  return {.bytes = RoundUp(tensor.spec.size_bytes(), kBlockBytes),
          .activation_bytes = CountsAsActivation(tensor.role) ? tensor.spec.size_bytes() : 0};
}

}  // namespace neap
