#include "tests/core/verifier/plan_rewrite.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

namespace neap {
namespace {

using Ids = std::vector<TensorId>;

bool Has(const Ids& ids, TensorId id) { return std::find(ids.begin(), ids.end(), id) != ids.end(); }

bool Touches(const PlanStep& step, TensorId id) {
  return Has(step.reads, id) || Has(step.writes, id) || Has(step.accumulates, id);
}

const Ids& RerunReads(const PlanStep& step) {
  return step.rerun_reads.empty() ? step.reads : step.rerun_reads;
}

// What a compute action reads, and what it writes.
Ids Sources(const Plan& plan, const ComputeAction& compute) {
  const PlanStep& step = plan.steps[compute.step.index()];
  return compute.recompute ? RerunReads(step) : step.reads;
}
Ids Results(const Plan& plan, const ComputeAction& compute) {
  const PlanStep& step = plan.steps[compute.step.index()];
  Ids results = compute.recompute ? Ids() : step.accumulates;
  for (TensorId id : step.writes) {
    // A recomputation that reads the saved tensors does not save them again.
    if (!compute.recompute || !Has(RerunReads(step), id)) results.push_back(id);
  }
  return results;
}

class Evictor {
 public:
  Evictor(const Plan& from, const Eviction& eviction)
      : from_(from), eviction_(eviction), states_(from.tensors.size()) {}

  Plan Run() {
    for (const Action& action : from_.actions) {
      std::visit([this](const auto& a) { Rewrite(a); }, action);
    }
    Plan plan = from_;
    plan.actions = std::move(actions_);
    return plan;
  }

 private:
  struct State {
    bool live = false, on_host = false, over = false;
    std::optional<ComputeAction> producer;
  };
  State& Of(TensorId id) { return states_[id.index()]; }

  void Alloc(TensorId id) {
    if (Of(id).live) return;
    actions_.emplace_back(AllocAction{id, {}});
    Of(id).live = true;
  }
  void Free(TensorId id) {
    if (!Of(id).live) return;
    actions_.emplace_back(FreeAction{id});
    Of(id).live = false;
  }

  void Rewrite(const AllocAction& alloc) { Alloc(alloc.tensor); }
  void Rewrite(const FreeAction& free) {
    Free(free.tensor);
    Of(free.tensor).over = true;
  }
  void Rewrite(const ComputeAction& compute) {
    const PlanStep& step = from_.steps[compute.step.index()];
    for (const Ids* ids : {&step.reads, &step.accumulates}) {
      for (TensorId id : *ids) Bring(id);
    }
    actions_.emplace_back(compute);
    for (TensorId id : step.writes) Of(id).producer = compute;
    for (const PlanTensor& tensor : from_.tensors) {
      if (Touches(step, tensor.id) && IsLastOfForward(step, tensor.id)) Evict(tensor);
    }
  }
  template <typename Transfer>
  void Rewrite(const Transfer& /*unexpected*/) {}  // plans that keep everything move nothing

  bool IsLastOfForward(const PlanStep& step, TensorId id) const {
    if (step.phase != Phase::kForward) return false;
    bool backward = false;
    for (size_t i = step.id.index() + 1; i < from_.steps.size(); ++i) {
      if (!Touches(from_.steps[i], id)) continue;
      if (from_.steps[i].phase == Phase::kForward) return false;
      backward = true;
    }
    return backward;
  }

  void Evict(const PlanTensor& tensor) {
    if (eviction_.offload(tensor)) {
      actions_.emplace_back(OffloadAction{tensor.id});
      Of(tensor.id).on_host = true;
      Free(tensor.id);
    } else if (eviction_.drop(tensor)) {
      Free(tensor.id);
    }
  }

  void Bring(TensorId id) {
    if (Of(id).live) return;
    if (Of(id).on_host) {
      Alloc(id);
      actions_.emplace_back(PrefetchAction{id});
    } else {
      Recompute(*Of(id).producer);
    }
  }

  void Recompute(ComputeAction compute) {
    compute.recompute = true;
    for (TensorId id : Sources(from_, compute)) Bring(id);
    for (TensorId id : Results(from_, compute)) Alloc(id);
    actions_.emplace_back(compute);
    // Tensors that were prefetched only for this action.
    for (TensorId id : Sources(from_, compute)) {
      if (Of(id).over) Free(id);
    }
  }

  const Plan& from_;
  const Eviction& eviction_;
  std::vector<State> states_;  // by TensorId
  std::vector<Action> actions_;
};

int64_t WholeBlocks(int64_t bytes) { return (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes; }

// Allocates bytes.
class BlockBytes {
 public:
  explicit BlockBytes(Reuse reuse) : reuse_(reuse) {}

  Region Take(int64_t bytes) {
    bytes = WholeBlocks(bytes);
    Region region = {reuse_ == Reuse::kNone ? end_ : 0, bytes};
    for (const auto& [offset, size] : taken_) {  // in order of offset
      if (offset < region.end()) region.offset = std::max(region.offset, offset + size);
    }
    taken_.emplace(region.offset, bytes);
    end_ = std::max(end_, region.end());
    return region;
  }
  void Return(const Region& region) { taken_.erase(region.offset); }
  int64_t end() const { return end_; }

 private:
  Reuse reuse_;
  std::map<int64_t, int64_t> taken_;  // size by offset
  int64_t end_ = 0;
};

// One action's use of bytes of the arena, or of a pool.
struct Access {
  size_t action = 0;
  Stream stream = Stream::kCompute;
  std::optional<Pool> pool;  // nullopt for the arena
  Region region;
  bool writes = false;

  bool Conflicts(const Access& other) const {
    if (stream == other.stream || !(writes || other.writes) || pool != other.pool) return false;
    return region.offset < other.region.end() && other.region.offset < region.end();
  }
};

class Waiter {
 public:
  explicit Waiter(const Plan& plan)
      : plan_(plan), regions_(plan.tensors.size()), copies_(plan.tensors.size()) {}

  std::vector<Action> Run() {
    for (const Action& action : plan_.actions) {
      if (const auto* alloc = std::get_if<AllocAction>(&action))
        regions_[alloc->tensor.index()] = alloc->region;
      if (const auto* offload = std::get_if<OffloadAction>(&action))
        copies_[offload->tensor.index()] = *offload;
      const std::vector<Access> now = AccessesOf(action);
      for (Stream other : kPlanStreams) WaitFor(other, now);
      for (Access access : now) {
        access.action = actions_.size();
        past_.push_back(access);
      }
      actions_.push_back(action);
    }
    return std::move(actions_);
  }

 private:
  void WaitFor(Stream other, const std::vector<Access>& now) {
    std::optional<size_t> last;
    for (const Access& access : now) {
      for (const Access& past : past_) {
        if (past.stream == other && access.Conflicts(past)) last = std::max(last, {past.action});
      }
    }
    if (!last.has_value()) return;
    std::optional<size_t>& waited =
        waited_[static_cast<size_t>(now.front().stream)][static_cast<size_t>(other)];
    if (waited >= last) return;
    waited = last;
    actions_.emplace_back(WaitAction{now.front().stream, static_cast<int64_t>(*last)});
  }

  std::vector<Access> AccessesOf(const Action& action) const {
    std::vector<Access> accesses;
    const auto add = [&](Stream stream, TensorId id, bool writes) {
      accesses.push_back({.stream = stream, .region = regions_[id.index()], .writes = writes});
    };
    const auto add_copy = [&](Stream stream, TensorId id, bool writes) {
      const OffloadAction& copy = copies_[id.index()];
      accesses.push_back({.stream = stream,
                          .pool = copy.pool,
                          .region = {copy.offset, WholeBlocks(plan_.tensors[id.index()].bytes)},
                          .writes = writes});
    };
    if (const auto* offload = std::get_if<OffloadAction>(&action)) {
      add(Stream::kD2h, offload->tensor, false);
      add_copy(Stream::kD2h, offload->tensor, true);
    } else if (const auto* prefetch = std::get_if<PrefetchAction>(&action)) {
      add(Stream::kH2d, prefetch->tensor, true);
      add_copy(Stream::kH2d, prefetch->tensor, false);
    } else if (const auto* collective = std::get_if<CollectiveAction>(&action)) {
      for (TensorId id : plan_.steps[collective->step.index()].accumulates)
        add(Stream::kCollective, id, true);
    } else if (const auto* compute = std::get_if<ComputeAction>(&action)) {
      for (TensorId id : Sources(plan_, *compute)) add(Stream::kCompute, id, false);
      for (TensorId id : Results(plan_, *compute)) add(Stream::kCompute, id, true);
      if (compute->workspace.has_value())
        accesses.push_back({.region = *compute->workspace, .writes = true});
    }
    return accesses;
  }

  const Plan& plan_;
  std::vector<Region> regions_;        // by TensorId
  std::vector<OffloadAction> copies_;  // by TensorId: the last
  std::vector<Action> actions_;
  std::vector<Access> past_;
  // The last action of the second stream that the first has waited for.
  std::array<std::array<std::optional<size_t>, kStreamCount>, kStreamCount> waited_;
};

}  // namespace

Plan Evict(const Plan& plan, const Eviction& eviction) { return Evictor(plan, eviction).Run(); }

void Place(Plan& plan, Reuse reuse) {
  BlockBytes bytes(reuse);
  std::vector<Region> regions(plan.tensors.size());
  for (Action& action : plan.actions) {
    if (auto* alloc = std::get_if<AllocAction>(&action)) {
      alloc->region = bytes.Take(plan.tensors[alloc->tensor.index()].bytes);
      regions[alloc->tensor.index()] = alloc->region;
    } else if (const auto* free = std::get_if<FreeAction>(&action)) {
      bytes.Return(regions[free->tensor.index()]);
    } else if (auto* compute = std::get_if<ComputeAction>(&action);
               compute != nullptr && compute->workspace.has_value()) {
      compute->workspace = bytes.Take(compute->workspace->bytes);
      bytes.Return(*compute->workspace);
    }
  }
  plan.arena_bytes = bytes.end();
  plan.budget_bytes = bytes.end();
}

void PlaceCopies(Plan& plan, Reuse reuse) {
  std::array<BlockBytes, kPoolCount> pools = {BlockBytes(reuse), BlockBytes(reuse)};
  // By TensorId: the copy, and the number of prefetches of it that follow.
  std::vector<std::optional<std::pair<Pool, Region>>> copies(plan.tensors.size());
  std::vector<int> reads(plan.tensors.size());
  const auto end = [&](TensorId id) {
    if (std::optional<std::pair<Pool, Region>>& copy = copies[id.index()]) {
      pools[static_cast<size_t>(copy->first)].Return(copy->second);
      copy.reset();
    }
  };
  const auto reads_after = [&](size_t offload, TensorId id) {
    int count = 0;
    for (size_t i = offload + 1; i < plan.actions.size(); ++i) {
      const auto* next = std::get_if<OffloadAction>(&plan.actions[i]);
      if (next != nullptr && next->tensor == id) break;
      count += plan.actions[i] == Action(PrefetchAction{id}) ? 1 : 0;
    }
    return count;
  };
  for (size_t i = 0; i < plan.actions.size(); ++i) {
    if (auto* offload = std::get_if<OffloadAction>(&plan.actions[i])) {
      const TensorId id = offload->tensor;
      end(id);
      const Region region =
          pools[static_cast<size_t>(offload->pool)].Take(plan.tensors[id.index()].bytes);
      offload->offset = region.offset;
      copies[id.index()] = {offload->pool, region};
      reads[id.index()] = reads_after(i, id);
    } else if (const auto* prefetch = std::get_if<PrefetchAction>(&plan.actions[i])) {
      if (--reads[prefetch->tensor.index()] == 0) end(prefetch->tensor);
    }
  }
  plan.host_pool_bytes = pools[static_cast<size_t>(Pool::kHost)].end();
  plan.peer_pool_bytes = pools[static_cast<size_t>(Pool::kPeer)].end();
}

void AddWaits(Plan& plan) { plan.actions = Waiter(plan).Run(); }

std::vector<Action> WithoutWaits(const std::vector<Action>& actions) {
  std::vector<Action> left;
  std::copy_if(actions.begin(), actions.end(), std::back_inserter(left),
               [](const Action& a) { return !std::holds_alternative<WaitAction>(a); });
  return left;
}

}  // namespace neap
