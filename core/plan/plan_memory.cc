#include "neap/core/plan/plan_memory.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "neap/core/base/units.h"

namespace neap {
namespace {

// For each action: whether it is the last prefetch that reads its copy.
std::vector<bool> LastReadsOfCopies(const Plan& plan) {
  std::vector<bool> is_last(plan.actions.size());
  std::vector<bool> is_read_later(plan.tensors.size());
  for (size_t i = plan.actions.size(); i-- > 0;) {
    if (const auto* offload = std::get_if<OffloadAction>(&plan.actions[i])) {
      is_read_later[offload->tensor.index()] = false;
    } else if (const auto* prefetch = std::get_if<PrefetchAction>(&plan.actions[i])) {
      is_last[i] = !is_read_later[prefetch->tensor.index()];
      is_read_later[prefetch->tensor.index()] = true;
    }
  }
  return is_last;
}

// Replays allocations and copies outside the arena.
class Bookkeeping {
 public:
  explicit Bookkeeping(const Plan& plan)
      : plan_(plan),
        regions_(plan.tensors.size()),
        is_last_read_(LastReadsOfCopies(plan)),
        copy_in_(plan.tensors.size()) {
    live_bytes_ = role_bytes_[static_cast<size_t>(Role::kInput)] = IncomingBytes(plan);
    for (const PlanTensor& tensor : plan.tensors) {
      if (tensor.on_host()) MoveCopy(tensor.id, Pool::kHost);
    }
  }

  std::vector<StepMemory> Replay() {
    for (action_ = 0; action_ < plan_.actions.size(); ++action_) {
      std::visit([this](const auto& action) { Apply(action); }, plan_.actions[action_]);
    }
    return std::move(memory_);
  }

 private:
  struct Sharers {
    TensorId first;
    int count = 0;
  };

  void Apply(const AllocAction& alloc) {
    regions_[alloc.tensor.index()] = alloc.region;
    Sharers& sharers = sharers_[alloc.region.offset];
    if (sharers.count++ > 0) return;
    sharers.first = alloc.tensor;
    Count(alloc.tensor, +1);
  }
  void Apply(const FreeAction& free) {
    const auto sharers = sharers_.find(regions_[free.tensor.index()].offset);
    if (sharers == sharers_.end() || --sharers->second.count > 0) return;
    Count(sharers->second.first, -1);
    sharers_.erase(sharers);
  }
  void Apply(const OffloadAction& offload) { MoveCopy(offload.tensor, offload.pool); }
  void Apply(const PrefetchAction& prefetch) {
    const bool stays = plan_.tensors[prefetch.tensor.index()].on_host();
    if (is_last_read_[action_] && !stays) MoveCopy(prefetch.tensor, std::nullopt);
  }
  void Apply(const WaitAction& /*changes_nothing*/) {}
  void Apply(const CollectiveAction& /*changes_nothing*/) {}
  void Apply(const ComputeAction& compute) {
    StepMemory memory = {.step = compute.step, .recompute = compute.recompute};
    memory.workspace_bytes = compute.workspace.has_value() ? compute.workspace->bytes : 0;
    memory.live_bytes = live_bytes_ + memory.workspace_bytes;
    memory.live_activation_bytes = live_activation_bytes_;
    memory.live_activations = live_activations_;
    memory.free_bytes = plan_.budget_bytes - memory.live_bytes;
    memory.host_bytes = pool_bytes_[static_cast<size_t>(Pool::kHost)];
    memory.peer_bytes = pool_bytes_[static_cast<size_t>(Pool::kPeer)];
    memory.role_bytes = role_bytes_;
    memory.engine = ToString(compute.engines);
    memory_.push_back(std::move(memory));
  }

  void Count(TensorId id, int sign) {
    const PlanTensor& tensor = plan_.tensors[id.index()];
    const int64_t bytes = sign * regions_[id.index()].bytes;
    live_bytes_ += bytes;
    role_bytes_[static_cast<size_t>(tensor.role)] += bytes;
    if (!CountsAsActivation(tensor.role)) return;
    live_activation_bytes_ += sign * tensor.bytes;
    live_activations_ += sign;
  }
  void MoveCopy(TensorId id, std::optional<Pool> to) {
    const int64_t bytes = RoundUp(plan_.tensors[id.index()].bytes, kBlockBytes);
    std::optional<Pool>& in = copy_in_[id.index()];
    if (in.has_value()) pool_bytes_[static_cast<size_t>(*in)] -= bytes;
    if (to.has_value()) pool_bytes_[static_cast<size_t>(*to)] += bytes;
    in = to;
  }

  const Plan& plan_;
  std::vector<Region> regions_;                    // by TensorId
  absl::flat_hash_map<int64_t, Sharers> sharers_;  // by offset
  std::array<int64_t, kRoleCount> role_bytes_ = {};
  int64_t live_bytes_ = 0;
  int64_t live_activation_bytes_ = 0;
  int live_activations_ = 0;
  const std::vector<bool> is_last_read_;      // by action
  std::vector<std::optional<Pool>> copy_in_;  // by TensorId
  std::array<int64_t, kPoolCount> pool_bytes_ = {};
  size_t action_ = 0;
  std::vector<StepMemory> memory_;
};

}  // namespace

std::vector<StepMemory> MemoryPerStep(const Plan& plan) {
  std::vector<StepMemory> memory = Bookkeeping(plan).Replay();
  StepId next;
  for (auto at = memory.rbegin(); at != memory.rend(); ++at) {
    if (!at->recompute) next = at->step;
    at->serves = next;
  }
  return memory;
}

Movement TotalMovement(const Plan& plan) {
  Movement total;
  std::vector<Pool> copy_in(plan.tensors.size(), Pool::kHost);
  for (const Action& action : plan.actions) {
    if (const auto* compute = std::get_if<ComputeAction>(&action)) {
      total.extra_forwards += compute->recompute ? 1 : 0;
    } else if (const auto* offload = std::get_if<OffloadAction>(&action)) {
      const int64_t bytes = plan.tensors[offload->tensor.index()].bytes;
      copy_in[offload->tensor.index()] = offload->pool;
      total.offloaded_bytes += bytes;
      total.peer_offloaded_bytes += offload->pool == Pool::kPeer ? bytes : 0;
    } else if (const auto* prefetch = std::get_if<PrefetchAction>(&action)) {
      const int64_t bytes = plan.tensors[prefetch->tensor.index()].bytes;
      total.prefetched_bytes += bytes;
      total.peer_prefetched_bytes += copy_in[prefetch->tensor.index()] == Pool::kPeer ? bytes : 0;
    }
  }
  return total;
}

std::optional<StepMemory> ActivationPeak(const std::vector<StepMemory>& memory) {
  const auto peak =
      std::max_element(memory.begin(), memory.end(), [](const auto& a, const auto& b) {
        return a.live_activation_bytes < b.live_activation_bytes;
      });
  return peak == memory.end() ? std::nullopt : std::optional<StepMemory>(*peak);
}

}  // namespace neap
