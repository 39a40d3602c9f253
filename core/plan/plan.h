// A plan: what happens to every byte during one iteration, as a frozen list of actions.
//
// A plan is data. The planner makes it, the verifier checks it, the executor replays it, and
// outside tools read it (docs/plan-format.md); they share nothing else. Actions are in issue order.
// `alloc` and `free` are bookkeeping in that order. Each stream runs its own actions in order, and
// is ordered after actions of another stream only by `wait`.
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
// core/plan/plan_memory.h, core/plan/timeline.h and core/plan/tensor_history.h compute results from
// a plan.
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

// Memory outside the arena that holds copies of tensors (SuperNeurons 3.3, the unified tensor
// pool): pinned memory of the host, or memory of a peer GPU.
enum class Pool : uint8_t { kHost, kPeer };
inline constexpr int kPoolCount = 2;
std::string_view Name(Pool pool);

// The format of docs/plan-format.md that Plan::ToJson() writes and Plan::FromJson() reads.
inline constexpr int64_t kPlanFormat = 2;

struct PlanTensor {
  TensorId id;
  std::string name;
  Role role = Role::kActivation;
  Shape shape;
  DType dtype = DType::kFp32;
  int64_t bytes = 0;  // exact; its region is rounded up to whole blocks
  // Persistent tensors only: if set, the value is on the host between iterations, at this offset of
  // the host's pool.
  std::optional<int64_t> host_offset = std::nullopt;
  bool on_host() const { return host_offset.has_value(); }
  // Persistent tensors only: the value is in memory of the caller's, at an address that is given
  // when the plan is bound to memory. It has no place in the arena, and is never moved.
  bool is_external = false;
  // This rank's slice of a parameter and its gradient, if each rank updates only one of its own.
  // It may be empty.
  std::optional<Slice> own = std::nullopt;
  friend bool operator==(const PlanTensor&, const PlanTensor&) = default;
};

struct PlanStep {
  StepId id;
  std::string layer;
  std::string type;
  Phase phase = Phase::kForward;
  std::vector<TensorId> reads, writes, accumulates, rerun_reads;
  std::vector<std::pair<TensorId, TensorId>> in_place;  // {written, read} that may share a region
  // Tensors of which the step uses only these elements.
  std::vector<std::pair<TensorId, Slice>> slices = {};
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
  // The micro-batches in order; empty if the step has only one engine.
  std::vector<EngineUse> engines = {};
  std::optional<Region> workspace = std::nullopt;
  friend bool operator==(const ComputeAction&, const ComputeAction&) = default;
};
struct OffloadAction {  // d2h stream: region in the arena -> the bytes of `pool` from `offset` on
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
// collective stream: a step that all ranks take together, each with its own plan. Their plans have
// the same collectives in the same order.
struct CollectiveAction {
  StepId step;
  friend bool operator==(const CollectiveAction&, const CollectiveAction&) = default;
};
using Action = std::variant<AllocAction, FreeAction, ComputeAction, OffloadAction, PrefetchAction,
                            WaitAction, CollectiveAction>;

// The stream that runs the action; nullopt for bookkeeping and waits.
std::optional<Stream> StreamOf(const Action& action);

struct Plan {
  std::string net;
  int64_t batch = 0;
  // Parts of the batch, which the steps of layers compute: all but the last have as many images.
  int64_t sub_batches = 1;
  bool batch_norm_in_parts = false;  // batch norms have the statistics of each part
  DType dtype = DType::kFp32;
  Layout layout = Layout::kChannelsFirst;
  std::string policy;
  std::string device;            // its name; informative
  std::string device_kind = {};  // DeviceDescription::kind; empty if unknown
  int64_t budget_bytes = 0;
  int64_t arena_bytes = 0;            // size of the arena, which holds all regions
  int64_t peak_bytes = 0;             // highest address in use at any time
  int64_t peak_activation_bytes = 0;  // largest sum of live activations, saved tensors, gradients
  int64_t host_peak_bytes = 0;        // largest sum of copies on the host, in whole blocks
  int64_t peer_peak_bytes = 0;        // largest sum of copies on the peer, in whole blocks
  int64_t host_pool_bytes = 0;        // size of the host's pool, which holds all copies there
  int64_t peer_pool_bytes = 0;        // size of the peer's pool
  int64_t host_resident_bytes = 0;    // start of the host's pool, for tensors with `host_offset`
  // Bytes of the arena for the next iteration's batch, which arrives while this iteration runs, and
  // is moved to its tensors when that one begins. No tensor or workspace lies there. The inputs and
  // labels lie one after another in the order of their ids, in whole blocks. nullopt: the batch is
  // copied from the host before its iteration begins.
  std::optional<Region> incoming_batch = std::nullopt;
  double predicted_ms = 0;
  std::vector<PlanTensor> tensors;
  std::vector<PlanStep> steps;
  std::vector<Action> actions;

  // The JSON of docs/plan-format.md, format kPlanFormat.
  std::string ToJson() const;
  // In the plan returned, ids are positions, and sums of sizes do not overflow. Accepts only the
  // fields and values that ToJson() can write, each field once, in any order. Errors:
  // INVALID_ARGUMENT for another format, or naming the place where the text is not a plan.
  static absl::StatusOr<Plan> FromJson(std::string_view text);

  // Equal plans have equal hashes, on every machine.
  uint64_t Hash() const;
  // Several lines of text for the user: what is kept, moved and recomputed, the exact peak and its
  // step.
  std::string Summary() const;

  friend bool operator==(const Plan&, const Plan&) = default;
};

// The size of Plan::incoming_batch; 0 if there is none.
int64_t IncomingBytes(const Plan& plan);

// The tensors that a compute action reads, including those that it accumulates into, and those that
// it defines; the same as for a run in a program (core/program/lifetimes.h).
std::vector<TensorId> RunReads(const Plan& plan, const ComputeAction& compute);
std::vector<TensorId> RunWrites(const Plan& plan, const ComputeAction& compute);

// The bytes of the tensors that a collective changes.
int64_t CollectiveBytes(const Plan& plan, const CollectiveAction& collective);

// "conv1 backward_data"
std::string StepName(const PlanStep& step);
// "conv1 forward", of a recomputation "conv1 forward again".
std::string RunName(const Plan& plan, const ComputeAction& compute);

}  // namespace neap
