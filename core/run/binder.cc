#include "neap/core/run/binder.h"

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/program/reduce_gradients.h"
#include "neap/core/program/results.h"
#include "neap/core/step/divided_kernel.h"

namespace neap {
namespace {

// Walks the actions in issue order, and keeps track of where each tensor and each copy lies.
class Binder {
 public:
  using Launch = BoundPlan::Launch;
  using Transfer = BoundPlan::Transfer;
  using Collective = BoundPlan::Collective;
  using RecordEvent = BoundPlan::RecordEvent;
  using WaitEvent = BoundPlan::WaitEvent;

  Binder(const Program& program, const Plan& plan, Device& device, const PlanMemory& memory)
      : program_(program),
        plan_(plan),
        device_(device),
        memory_(memory),
        regions_(plan.tensors.size()),
        copies_(plan.tensors.size()) {
    for (const TensorId result : KeptResults(program)) results_.insert(result);
    bound_.given.resize(plan.tensors.size(), nullptr);
    PlaceIncoming();
    for (const PlanTensor& tensor : plan.tensors) {
      if (tensor.is_external) bound_.given[tensor.id.index()] = Place(tensor.id);
      if (!tensor.on_host()) continue;
      copies_[tensor.id.index()] = memory_.host_residents + *tensor.host_offset;
      bound_.given[tensor.id.index()] = copies_[tensor.id.index()];
    }
  }

  absl::StatusOr<BoundPlan> Bind() {
    RETURN_IF_ERROR(CheckExternal());
    RETURN_IF_ERROR(ReservePools());
    for (const Action& action : plan_.actions) {
      if (const auto* wait = std::get_if<WaitAction>(&action))
        event_of_.try_emplace(wait->on, event_of_.size());
    }
    const std::vector<Stream> beside = StreamsBesideCompute();
    for (const Stream stream : beside) Join(stream, Stream::kCompute);
    for (size_t i = 0; i < plan_.actions.size(); ++i) {
      action_ = i;
      bound_.names.push_back(
          std::visit([this](const auto& action) { return NameOf(action); }, plan_.actions[i]));
      RETURN_IF_ERROR(
          std::visit([this](const auto& action) { return BindAction(action); }, plan_.actions[i]));
      if (const auto event = event_of_.find(static_cast<int64_t>(i)); event != event_of_.end()) {
        bound_.operations.emplace_back(RecordEvent{*StreamOf(plan_.actions[i]), event->second});
      }
    }
    for (const Stream stream : beside) Join(Stream::kCompute, stream);
    bound_.events = event_of_.size() + joins_;
    return std::move(bound_);
  }

 private:
  absl::Status CheckExternal() const {
    for (const PlanTensor& tensor : plan_.tensors) {
      if (!tensor.is_external || Place(tensor.id) != nullptr) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("the external tensor '", tensor.name, "' has no address"));
    }
    return absl::OkStatus();
  }

  std::vector<Stream> StreamsBesideCompute() const {
    std::vector<Stream> streams;
    const bool transfers = plan_.host_peak_bytes > 0 || plan_.peer_peak_bytes > 0;
    if (transfers) streams = {Stream::kD2h, Stream::kH2d};
    const bool sums = std::any_of(
        plan_.actions.begin(), plan_.actions.end(),
        [](const Action& action) { return std::holds_alternative<CollectiveAction>(action); });
    if (sums) streams.push_back(Stream::kCollective);
    return streams;
  }

  template <typename Other>
  std::string NameOf(const Other& /*action*/) const {
    return "";  // not executed, or a wait
  }
  std::string NameOf(const ComputeAction& compute) const { return RunName(plan_, compute); }
  std::string NameOf(const OffloadAction& offload) const {
    return absl::StrCat(plan_.tensors[offload.tensor.index()].name,
                        offload.pool == Pool::kHost ? " to the host" : " to the peer");
  }
  std::string NameOf(const PrefetchAction& prefetch) const {
    return absl::StrCat(plan_.tensors[prefetch.tensor.index()].name, " back to the device");
  }

  std::string NameOf(const CollectiveAction& collective) const {
    return StepName(plan_.steps[collective.step.index()]);
  }

  void PlaceIncoming() {
    bound_.incoming.resize(plan_.tensors.size(), nullptr);
    if (!plan_.incoming_batch.has_value()) return;
    bound_.incoming_end = plan_.incoming_batch->end();
    int64_t offset = plan_.incoming_batch->offset;
    for (const PlanTensor& tensor : plan_.tensors) {
      if (!IsBatch(tensor.role)) continue;
      bound_.incoming[tensor.id.index()] = memory_.arena + offset;
      offset += RoundUp(tensor.bytes, kBlockBytes);
    }
  }

  // `later` continues when `earlier` has finished all its work. This separates two iterations, and
  // orders the copies after the batch's arrival on the compute stream.
  void Join(Stream later, Stream earlier) {
    const size_t event = event_of_.size() + joins_++;
    bound_.operations.emplace_back(RecordEvent{earlier, event});
    bound_.operations.emplace_back(WaitEvent{later, event});
  }

  absl::Status ReservePools() {
    RETURN_IF_ERROR(ReservePool(Pool::kHost, MemoryKind::kPinnedHost));
    return ReservePool(Pool::kPeer, MemoryKind::kPeer);
  }
  absl::Status ReservePool(Pool pool, MemoryKind kind) {
    const int64_t bytes = PoolBytes(plan_, pool);
    std::byte*& place = memory_.pools[static_cast<size_t>(pool)];
    if (bytes == 0 || place != nullptr) return absl::OkStatus();
    Buffer& buffer = bound_.pools[static_cast<size_t>(pool)];
    ASSIGN_OR_RETURN(buffer, device_.Allocate(kind, bytes));
    place = buffer.data();
    return absl::OkStatus();
  }

  absl::Status BindAction(const AllocAction& alloc) {
    regions_[alloc.tensor.index()] = alloc.region;
    std::byte*& given = bound_.given[alloc.tensor.index()];
    if (given == nullptr && IsGiven(plan_.tensors[alloc.tensor.index()].role))
      given = memory_.arena + alloc.region.offset;
    if (results_.contains(alloc.tensor)) given = memory_.arena + alloc.region.offset;
    return absl::OkStatus();
  }
  absl::Status BindAction(const FreeAction& /*free*/) { return absl::OkStatus(); }

  absl::Status BindAction(const OffloadAction& offload) {
    copies_[offload.tensor.index()] = CopyAddress(offload);
    bound_.operations.emplace_back(Transfer{action_, Stream::kD2h, copies_[offload.tensor.index()],
                                            Place(offload.tensor), Bytes(offload.tensor),
                                            End(offload.tensor)});
    return absl::OkStatus();
  }
  std::byte* CopyAddress(const OffloadAction& offload) const {
    const bool is_resident = plan_.tensors[offload.tensor.index()].on_host();
    if (is_resident) return memory_.host_residents + offload.offset;
    const int64_t begin = offload.pool == Pool::kHost ? plan_.host_resident_bytes : 0;
    return memory_.pools[static_cast<size_t>(offload.pool)] + (offload.offset - begin);
  }
  absl::Status BindAction(const PrefetchAction& prefetch) {
    bound_.operations.emplace_back(Transfer{action_, Stream::kH2d, Place(prefetch.tensor),
                                            copies_[prefetch.tensor.index()],
                                            Bytes(prefetch.tensor), End(prefetch.tensor)});
    return absl::OkStatus();
  }
  absl::Status BindAction(const WaitAction& wait) {
    bound_.operations.emplace_back(WaitEvent{wait.stream, event_of_.at(wait.on)});
    return absl::OkStatus();
  }

  absl::Status BindAction(const CollectiveAction& action) {
    const Step& step = program_.steps[action.step.index()];
    Collective collective = {.action = action_, .phase = step.phase};
    for (const Use& use : step.accumulates) {
      if (step.phase == Phase::kAllReduce) {
        collective.tensors.push_back({.data = reinterpret_cast<float*>(Place(use.tensor)),
                                      .count = program_.tensor(use.tensor).spec.elements(),
                                      .weight = static_cast<float>(WeightInSum(program_, use))});
      } else {
        collective.sharded.push_back(Sharded(use.tensor));
      }
      collective.end = std::max(collective.end, End(use.tensor));
    }
    bound_.operations.emplace_back(std::move(collective));
    return absl::OkStatus();
  }
  ShardedTensor Sharded(TensorId id) const {
    const Tensor& tensor = program_.tensor(id);
    ShardedTensor sharded = {.data = Place(id)};
    for (const Slice& slice : tensor.shards)
      sharded.bytes.push_back(slice.count * SizeOf(tensor.spec.dtype));
    return sharded;
  }

  // What it hands out and takes keeps the address that it has there.
  absl::Status BindPause(const Step& step) {
    BoundPlan::Pause pause;
    for (const std::vector<Use>* uses : {&step.reads, &step.writes}) {
      for (const Use& use : *uses) {
        bound_.given[use.tensor.index()] = Place(use.tensor);
        pause.end = std::max(pause.end, End(use.tensor));
      }
    }
    bound_.pause = bound_.operations.size();
    bound_.operations.emplace_back(pause);
    return absl::OkStatus();
  }

  absl::Status BindAction(const ComputeAction& compute) {
    const Step& step = program_.steps[compute.step.index()];
    if (step.phase == Phase::kPause) return BindPause(step);
    RETURN_IF_ERROR(CheckRunnable(step, compute));
    const StepSignature signature = program_.Signature(step, compute.recompute);
    Launch launch = {.action = action_,
                     .parts = std::max<int64_t>(std::ssize(compute.engines), 1),
                     .operands = OperandAddresses(step, signature, compute)};
    const int64_t scratch = compute.recompute ? 0 : program_.AccumulationScratchBytes(step);
    if (compute.workspace.has_value()) {
      launch.workspace = memory_.arena + compute.workspace->offset + scratch;
      launch.workspace_bytes = compute.workspace->bytes - scratch;
      launch.end = compute.workspace->end();
    }
    for (const OperandSpec& operand : signature.operands) {
      launch.end = std::max(launch.end, End(UseOf(step, operand.operand).tensor));
    }
    ASSIGN_OR_RETURN(launch.kernel, KernelFor(program_.StepName(step), signature, compute.engines,
                                              launch.workspace_bytes));
    bound_.operations.emplace_back(std::move(launch));
    return compute.recompute ? absl::OkStatus() : BindAdditions(step, compute);
  }

  // Checks a requirement of the program that Verify() cannot know.
  absl::Status CheckRunnable(const Step& step, const ComputeAction& compute) const {
    const std::string name = program_.StepName(step);
    const int64_t scratch = compute.recompute ? 0 : program_.AccumulationScratchBytes(step);
    const int64_t workspace = compute.workspace.has_value() ? compute.workspace->bytes : 0;
    if (scratch <= workspace) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(name, ": its sums of gradients need ", scratch,
                                                   " bytes of workspace, but the plan has ",
                                                   workspace));
  }

  // The last field is the workspace's bytes.
  using KernelKey = std::tuple<StepSignature, std::vector<EngineUse>, int64_t>;

  // The kernel for a step's micro-batches or, if there are none, for the only engine. Equal steps
  // share it.
  absl::StatusOr<size_t> KernelFor(const std::string& name, const StepSignature& signature,
                                   const std::vector<EngineUse>& parts, int64_t workspace_bytes) {
    const auto [known, is_new] =
        kernel_of_.try_emplace({signature, parts, workspace_bytes}, bound_.kernels.size());
    if (!is_new) return known->second;
    absl::StatusOr<std::unique_ptr<Kernel>> kernel = MakeKernel(signature, parts, workspace_bytes);
    if (!kernel.ok()) {
      return absl::Status(kernel.status().code(),
                          absl::StrCat(name, ": ", kernel.status().message()));
    }
    bound_.kernels.push_back(*std::move(kernel));
    return known->second;
  }

  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const StepSignature& signature,
                                                     const std::vector<EngineUse>& parts,
                                                     int64_t workspace_bytes) {
    Backend& backend = device_.backend();
    if (parts.size() > 1) return MakeDividedKernel(backend, signature, parts, workspace_bytes);
    return MakeKernelWithin(backend, signature, parts.empty() ? "" : parts.front().engine,
                            workspace_bytes);
  }

  // Gradients that the kernel overwrites but the step accumulates are written to scratch space, in
  // the order of `accumulates`.
  std::vector<std::pair<Use, std::byte*>> ScratchGradients(const Step& step,
                                                           const ComputeAction& compute) const {
    std::vector<std::pair<Use, std::byte*>> scratch;
    if (compute.recompute) return scratch;
    int64_t used = 0;
    for (const Use& use : step.accumulates) {
      if (!KernelOverwrites(step, use)) continue;
      scratch.emplace_back(use, memory_.arena + compute.workspace->offset + used);
      used += RoundUp(Bytes(use.tensor), kScratchAlignment);
    }
    return scratch;
  }

  std::vector<void*> OperandAddresses(const Step& step, const StepSignature& signature,
                                      const ComputeAction& compute) const {
    const auto scratch = ScratchGradients(step, compute);
    std::vector<void*> addresses;
    for (const OperandSpec& operand : signature.operands) {
      void* address = Place(UseOf(step, operand.operand));
      for (const auto& [use, place] : scratch) {
        if (use.operand == operand.operand) address = place;
      }
      addresses.push_back(address);
    }
    return addresses;
  }

  static Use UseOf(const Step& step, Operand operand) {
    for (const std::vector<Use>* uses :
         {&step.reads, &step.writes, &step.accumulates, &step.rerun_reads}) {
      for (const Use& use : *uses) {
        if (use.operand == operand) return use;
      }
    }
    return {};
  }

  // The additions of gradients that the kernel does not perform by itself.
  absl::Status BindAdditions(const Step& step, const ComputeAction& compute) {
    for (const auto& [use, place] : ScratchGradients(step, compute)) {
      RETURN_IF_ERROR(BindAddition(use.tensor, place));
    }
    if (KernelAddsAddends(step)) return absl::OkStatus();
    for (const Use& addend : step.reads) {
      if (addend.operand.slot != Slot::kAddend) continue;
      const TensorId sum = UseOf(step, {Slot::kInputGrad, addend.operand.index}).tensor;
      RETURN_IF_ERROR(BindAddition(sum, Place(addend.tensor)));
    }
    return absl::OkStatus();
  }

  // sum += addend.
  absl::Status BindAddition(TensorId sum, void* addend) {
    ASSIGN_OR_RETURN(
        const size_t kernel,
        KernelFor("sum of gradients", AdditionSignature(program_.tensor(sum).spec), {}, 0));
    bound_.operations.emplace_back(Launch{
        .action = action_, .kernel = kernel, .operands = {Place(sum), addend}, .end = End(sum)});
    return absl::OkStatus();
  }

  int64_t Bytes(TensorId tensor) const { return plan_.tensors[tensor.index()].bytes; }
  // 0 for an external tensor.
  int64_t End(TensorId tensor) const { return regions_[tensor.index()].end(); }
  std::byte* Place(TensorId tensor) const {
    if (plan_.tensors[tensor.index()].is_external) return AddressIn(memory_.external, tensor);
    return memory_.arena + regions_[tensor.index()].offset;
  }
  std::byte* Place(const Use& use) const {
    const int64_t first = use.slice.has_value() ? use.slice->first : 0;
    return Place(use.tensor) + first * SizeOf(program_.tensor(use.tensor).spec.dtype);
  }

  const Program& program_;
  absl::flat_hash_set<TensorId> results_;
  const Plan& plan_;
  Device& device_;
  PlanMemory memory_;
  BoundPlan bound_;
  std::vector<Region> regions_;  // by TensorId, as of the current action
  absl::flat_hash_map<KernelKey, size_t> kernel_of_;
  std::vector<std::byte*> copies_;                 // by TensorId, as of the current action
  absl::flat_hash_map<int64_t, size_t> event_of_;  // by action index
  size_t joins_ = 0;                               // number of events not in `event_of_`
  size_t action_ = 0;                              // index of the current action
};

}  // namespace

int64_t PoolBytes(const Plan& plan, Pool pool) {
  return pool == Pool::kHost ? plan.host_pool_bytes - plan.host_resident_bytes
                             : plan.peer_pool_bytes;
}

absl::StatusOr<BoundPlan> BindPlan(const Program& program, const Plan& plan, Device& device,
                                   const PlanMemory& memory) {
  return Binder(program, plan, device, memory).Bind();
}

}  // namespace neap
