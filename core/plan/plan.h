// A plan: what happens to every byte during one iteration, as a frozen list of actions.
//
// A plan is data. The planner makes it, the verifier proves it, the executor replays it, outside
// tools read it (docs/plan-format.md); none of them shares anything else. Actions are in issue
// order. `alloc` and `free` are bookkeeping in that order; each stream runs its own actions in
// order and sees another stream's only through `wait`.
//
//   ^ offset
//   |        +---conv1.out---------+
//   |  +-ws--+----+                |        alloc conv1.out; compute 0 (with its workspace); ...
//   |  |          |   +--dx--+     |
//   +--+----------+---+------+-----+---> actions
//
//   ASSIGN_OR_RETURN(PlanResult result, MakePlan(program, options, description, catalog));
//   RETURN_IF_ERROR(Verify(result.plan));
//   std::cout << result.plan.Summary();
//
// What is computed from a plan is elsewhere: core/plan/plan_memory.h, core/plan/timeline.h,
// core/plan/tensor_fate.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/base/ids.h"
#include "neap/core/base/region.h"
#include "neap/core/base/tensor.h"
#include "neap/core/device/device.h"
#include "neap/core/step/engine_use.h"
#include "neap/core/step/layer.h"

namespace neap {

// Memory outside the arena that copies of tensors are kept in (SuperNeurons 3.3, the unified tensor
// pool): pinned memory of the host, memory of a peer GPU.
enum class Pool : uint8_t { kHost, kPeer };
inline constexpr int kPoolCount = 2;
std::string_view Name(Pool pool);

struct PlanTensor {
  TensorId id;
  std::string name;
  Role role = Role::kActivation;
  Shape shape;
  DType dtype = DType::kFp32;
  int64_t bytes = 0;  // exact; its region is rounded up to whole blocks
  // Persistent tensors only: the value is on the host between iterations, at this offset of the
  // host's pool.
  std::optional<int64_t> host_offset = std::nullopt;
  bool on_host() const { return host_offset.has_value(); }
  friend bool operator==(const PlanTensor&, const PlanTensor&) = default;
};

struct PlanStep {
  StepId id;
  std::string layer;
  std::string type;
  Phase phase = Phase::kForward;
  std::vector<TensorId> reads, writes, accumulates, rerun_reads;
  std::vector<std::pair<TensorId, TensorId>> in_place;  // {written, read} that may share a region
  friend bool operator==(const PlanStep&, const PlanStep&) = default;
};

struct AllocAction {
  TensorId tensor;
  Region region;
  friend bool operator==(const AllocAction&, const AllocAction&) = default;
};
struct FreeAction {
  TensorId tensor;
  friend bool operator==(const FreeAction&, const FreeAction&) = default;
};
struct ComputeAction {
  StepId step;
  bool recompute = false;
  std::vector<EngineUse> engines =
      {};  // micro-batches in order; empty: the step has but one way to run
  std::optional<Region> workspace = std::nullopt;
  friend bool operator==(const ComputeAction&, const ComputeAction&) = default;
};
struct OffloadAction {  // d2h stream: device copy -> the bytes of `pool` from `offset` on
  TensorId tensor;
  Pool pool = Pool::kHost;
  int64_t offset = 0;
  friend bool operator==(const OffloadAction&, const OffloadAction&) = default;
};
struct PrefetchAction {  // h2d stream: the last offload's copy -> its already allocated region
  TensorId tensor;
  friend bool operator==(const PrefetchAction&, const PrefetchAction&) = default;
};
struct WaitAction {  // `stream` runs nothing further until the action at index `on` has finished
  Stream stream = Stream::kCompute;
  int64_t on = 0;
  friend bool operator==(const WaitAction&, const WaitAction&) = default;
};
using Action =
    std::variant<AllocAction, FreeAction, ComputeAction, OffloadAction, PrefetchAction, WaitAction>;

// The stream that an action takes time on; nothing for bookkeeping and waits.
std::optional<Stream> StreamOf(const Action& action);

struct Plan {
  std::string net;
  int64_t batch = 0;
  DType dtype = DType::kFp32;
  Layout layout = Layout::kNchw;
  std::string policy;
  std::string device;            // its name, for people
  std::string device_kind = {};  // DeviceDescription::kind; empty: the plan does not say
  int64_t budget_bytes = 0;
  int64_t arena_bytes = 0;  // to be reserved: everything has its place in it
  int64_t peak_bytes = 0;   // highest address in use at any time
  int64_t peak_activation_bytes =
      0;                            // largest sum of live activations, saved tensors and gradients
  int64_t host_peak_bytes = 0;      // largest sum of copies on the host, whole blocks
  int64_t peer_peak_bytes = 0;      // the same of the peer
  int64_t host_pool_bytes = 0;      // to be reserved: every copy on the host has its place in it
  int64_t peer_pool_bytes = 0;      // the same of the peer
  int64_t host_resident_bytes = 0;  // first bytes of the host's pool: of tensors with `host_offset`
  double predicted_ms = 0;
  std::vector<PlanTensor> tensors;
  std::vector<PlanStep> steps;
  std::vector<Action> actions;

  // The JSON of docs/plan-format.md, format 2.
  std::string ToJson() const;
  // The ids of the plan returned are positions, and its sizes can be summed. Errors:
  // INVALID_ARGUMENT for another format, or saying where the text is no plan. Accepts nothing that
  // ToJson() cannot write.
  static absl::StatusOr<Plan> FromJson(std::string_view text);

  // Equal plans have equal hashes, on every machine.
  uint64_t Hash() const;
  // For a person: what stays, what moves, what is rebuilt, the exact peak and the step that makes
  // it.
  std::string Summary() const;

  friend bool operator==(const Plan&, const Plan&) = default;
};

// What a compute action reads, also what it adds to; and what it defines. As in a program
// (core/program/lifetimes.h).
std::vector<TensorId> RunReads(const Plan& plan, const ComputeAction& compute);
std::vector<TensorId> RunWrites(const Plan& plan, const ComputeAction& compute);

// "conv1 backward_data"
std::string StepName(const PlanStep& step);

}  // namespace neap
