#include "neap/memory/transfer/waits.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "neap/core/base/units.h"
#include "neap/memory/transfer/byte_history.h"

namespace neap {
namespace {

constexpr int64_t kNever = -1;

// For each stream, the index of one of its actions, or kNever.
using PerStream = std::array<int64_t, kStreamCount>;
constexpr PerStream kNone = {kNever, kNever, kNever, kNever, kNever};
static_assert(kNone.back() == kNever);

void Merge(PerStream& into, const PerStream& other) {
  for (size_t s = 0; s < into.size(); ++s) into[s] = std::max(into[s], other[s]);
}

size_t Index(Stream stream) { return static_cast<size_t>(stream); }

class WaitWriter {
 public:
  explicit WaitWriter(const Plan& plan)
      : plan_(plan),
        tensors_(plan.tensors.size()),
        history_(kNone),
        pools_{ByteHistory<PerStream>(kNone), ByteHistory<PerStream>(kNone)} {
    known_.fill(kNone);
    for (const PlanTensor& tensor : plan.tensors) {
      if (tensor.on_host()) SetCopy(tensor.id, Pool::kHost, *tensor.host_offset);
    }
  }

  std::vector<Action> Write() {
    for (const Action& action : plan_.actions)
      std::visit([this](const auto& a) { Apply(a); }, action);
    return std::move(actions_);
  }

 private:
  struct State {
    Region region;
    PerStream touches = kNone;  // last accesses, including those to its bytes by earlier owners
    PerStream written = kNone;  // last write, on at most one stream
    Pool pool = Pool::kHost;    // pool of the copy outside the arena
    Region copy;                // bytes of that copy
  };
  State& At(TensorId tensor) { return tensors_[tensor.index()]; }

  static PerStream LastTouches(const ByteHistory<PerStream>& history, const Region& region) {
    PerStream last = kNone;
    history.ForEach(region, [&](const PerStream& touches) { Merge(last, touches); });
    return last;
  }

  void SetCopy(TensorId tensor, Pool pool, int64_t offset) {
    const int64_t bytes = RoundUp(plan_.tensors[tensor.index()].bytes, kBlockBytes);
    At(tensor).pool = pool;
    At(tensor).copy = {offset, bytes};
  }
  ByteHistory<PerStream>& PoolOf(const State& state) {
    return pools_[static_cast<size_t>(state.pool)];
  }

  // Makes `stream` wait until all of `actions` are done.
  void Require(Stream stream, const PerStream& actions) {
    PerStream& known = known_[Index(stream)];
    const PerStream before = known;
    for (size_t other = 0; other < actions.size(); ++other) {
      if (other == Index(stream) || actions[other] <= before[other]) continue;
      if (IsImplied(other, stream, actions)) continue;
      actions_.emplace_back(WaitAction{stream, actions[other]});
      learned_.emplace_back();
      Merge(known, learned_[static_cast<size_t>(actions[other])]);
      known[other] = std::max(known[other], actions[other]);
    }
  }

  // Whether waiting for the other streams' actions implies waiting for `actions[stream]`. Two
  // actions cannot imply each other, because an action knows only earlier ones.
  bool IsImplied(size_t stream, Stream waiting, const PerStream& actions) const {
    for (size_t other = 0; other < actions.size(); ++other) {
      if (other == stream || other == Index(waiting) || actions[other] == kNever) continue;
      if (learned_[static_cast<size_t>(actions[other])][stream] >= actions[stream]) return true;
    }
    return false;
  }

  // Records an action of `stream` and returns its index.
  int64_t Issue(Stream stream, Action action) {
    const auto index = static_cast<int64_t>(actions_.size());
    actions_.push_back(std::move(action));
    learned_.push_back(known_[Index(stream)]);
    return index;
  }
  void Keep(Action action) {
    actions_.push_back(std::move(action));
    learned_.emplace_back(kNone);
  }

  void Apply(const AllocAction& alloc) {
    State& state = At(alloc.tensor);
    const auto sharer = at_.find(alloc.region.offset);
    state.touches =
        sharer == at_.end() ? LastTouches(history_, alloc.region) : At(sharer->second).touches;
    state.written = kNone;
    state.region = alloc.region;
    at_.insert_or_assign(alloc.region.offset, alloc.tensor);
    Keep(alloc);
  }

  void Apply(const FreeAction& free) {
    const State& state = At(free.tensor);
    const auto holder = at_.find(state.region.offset);
    if (holder != at_.end() && holder->second == free.tensor) {
      history_.Set(state.region, state.touches);
      at_.erase(holder);
    }
    Keep(free);
  }

  void Apply(const ComputeAction& compute) {
    const std::vector<TensorId> reads = RunReads(plan_, compute);
    std::vector<TensorId> writes = RunWrites(plan_, compute);
    if (!compute.recompute) {
      const std::vector<TensorId>& sums = plan_.steps[compute.step.index()].accumulates;
      writes.insert(writes.end(), sums.begin(), sums.end());
    }
    PerStream needs = kNone;  // merged: waiting for a stream's last action is enough
    for (TensorId tensor : reads) Merge(needs, At(tensor).written);
    for (TensorId tensor : writes) Merge(needs, At(tensor).touches);
    if (compute.workspace.has_value()) Merge(needs, LastTouches(history_, *compute.workspace));
    Require(Stream::kCompute, needs);
    const int64_t index = Issue(Stream::kCompute, compute);
    PerStream now = kNone;
    now[Index(Stream::kCompute)] = index;
    for (TensorId tensor : reads) Merge(At(tensor).touches, now);
    for (TensorId tensor : writes) {
      Merge(At(tensor).touches, now);
      At(tensor).written = now;
    }
    if (compute.workspace.has_value()) history_.Set(*compute.workspace, now);
  }

  void Apply(const OffloadAction& offload) {
    SetCopy(offload.tensor, offload.pool, offload.offset);
    State& state = At(offload.tensor);
    PerStream needs = state.written;
    Merge(needs, LastTouches(PoolOf(state), state.copy));
    Require(Stream::kD2h, needs);
    const int64_t index = Issue(Stream::kD2h, offload);
    state.touches[Index(Stream::kD2h)] = index;
    PerStream now = kNone;
    now[Index(Stream::kD2h)] = index;
    PoolOf(state).Set(state.copy, now);
  }

  void Apply(const PrefetchAction& prefetch) {
    State& state = At(prefetch.tensor);
    PerStream copy_touches = LastTouches(PoolOf(state), state.copy);
    PerStream needs = copy_touches;
    Merge(needs, state.touches);
    Require(Stream::kH2d, needs);
    const int64_t index = Issue(Stream::kH2d, prefetch);
    state.touches[Index(Stream::kH2d)] = index;
    state.written = kNone;
    state.written[Index(Stream::kH2d)] = index;
    copy_touches[Index(Stream::kH2d)] = index;
    PoolOf(state).Set(state.copy, copy_touches);
  }

  void Apply(const CollectiveAction& collective) {
    const std::vector<TensorId>& tensors = plan_.steps[collective.step.index()].accumulates;
    PerStream needs = kNone;
    for (TensorId tensor : tensors) Merge(needs, At(tensor).touches);
    Require(Stream::kCollective, needs);
    PerStream now = kNone;
    now[Index(Stream::kCollective)] = Issue(Stream::kCollective, collective);
    for (TensorId tensor : tensors) {
      Merge(At(tensor).touches, now);
      At(tensor).written = now;
    }
  }

  void Apply(const WaitAction& /*wait*/) {}  // the input has no waits

  const Plan& plan_;
  std::vector<Action> actions_;
  std::vector<PerStream> learned_;  // by action: the clock that a waiting stream merges
  std::array<PerStream, kStreamCount>
      known_{};                     // by stream: its clock, the actions it has waited for
  std::vector<State> tensors_;      // by TensorId
  std::map<int64_t, TensorId> at_;  // by offset: the last tensor allocated at these bytes
  ByteHistory<PerStream> history_;  // by byte: last accesses to bytes without a tensor
  std::array<ByteHistory<PerStream>, kPoolCount> pools_;  // by Pool and byte: last accesses
};

}  // namespace

std::vector<Action> WithWaits(const Plan& plan) {
  const bool alone = std::all_of(plan.actions.begin(), plan.actions.end(), [](const Action& a) {
    return StreamOf(a).value_or(Stream::kCompute) == Stream::kCompute;
  });
  return alone ? plan.actions : WaitWriter(plan).Write();
}

}  // namespace neap
