#include "neap/core/run/executor.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/step/divided_kernel.h"
#include "neap/memory/transfer/pools.h"

namespace neap {

// Turns a plan's actions into operations.
class Executor::Binder {
 public:
  Binder(const Program& program, const Plan& plan, Executor& executor, std::byte* arena,
         std::byte* homes)
      : program_(program),
        plan_(plan),
        executor_(executor),
        arena_(arena),
        homes_(homes),
        regions_(plan.tensors.size()),
        copies_(plan.tensors.size()) {
    executor_.given_.resize(plan.tensors.size(), nullptr);
    executor_.action_count_ = plan.actions.size();
    const HostHomes layout = LayOutHostHomes(plan);
    for (const PlanTensor& tensor : plan.tensors) {
      if (!tensor.on_host) continue;
      copies_[tensor.id.index()] = homes_ + layout.offsets[tensor.id.index()];
      executor_.given_[tensor.id.index()] = copies_[tensor.id.index()];
    }
  }

  absl::Status Bind() {
    RETURN_IF_ERROR(ReservePools());
    for (const Action& action : plan_.actions) {
      if (const auto* wait = std::get_if<WaitAction>(&action))
        event_of_.try_emplace(wait->on, event_of_.size());
    }
    for (const PoolLayout& layout : layouts_) {
      for (const PoolPlace& place : layout.places) {
        if (place.wait_for.has_value()) event_of_.try_emplace(*place.wait_for, event_of_.size());
      }
    }
    const bool transfers = plan_.host_peak_bytes > 0 || plan_.peer_peak_bytes > 0;
    if (transfers) {
      Join(Stream::kD2h, Stream::kCompute);
      Join(Stream::kH2d, Stream::kCompute);
    }
    for (size_t i = 0; i < plan_.actions.size(); ++i) {
      action_ = i;
      RETURN_IF_ERROR(
          std::visit([this](const auto& action) { return BindAction(action); }, plan_.actions[i]));
      if (const auto event = event_of_.find(static_cast<int64_t>(i)); event != event_of_.end()) {
        executor_.operations_.emplace_back(RecordEvent{*StreamOf(plan_.actions[i]), event->second});
      }
    }
    if (transfers) {
      Join(Stream::kCompute, Stream::kD2h);
      Join(Stream::kCompute, Stream::kH2d);
    }
    executor_.events_.resize(event_of_.size() + joins_);
    return absl::OkStatus();
  }

 private:
  // `later` goes on when `earlier` has finished all that it has: what lies between two iterations,
  // and between the batch's arrival on the compute stream and the copies.
  void Join(Stream later, Stream earlier) {
    const size_t event = event_of_.size() + joins_++;
    executor_.operations_.emplace_back(RecordEvent{earlier, event});
    executor_.operations_.emplace_back(WaitEvent{later, event});
  }

  absl::Status ReservePools() {
    constexpr std::array<MemoryKind, kPoolCount> kMemory = {MemoryKind::kPinnedHost,
                                                            MemoryKind::kPeer};
    layouts_ = LayOutPools(plan_);
    for (size_t pool = 0; pool < layouts_.size(); ++pool) {
      if (layouts_[pool].bytes == 0) continue;
      ASSIGN_OR_RETURN(executor_.pools_[pool],
                       executor_.device_->Allocate(kMemory[pool], layouts_[pool].bytes));
    }
    return absl::OkStatus();
  }

  absl::Status BindAction(const AllocAction& alloc) {
    regions_[alloc.tensor.index()] = alloc.region;
    std::byte*& given = executor_.given_[alloc.tensor.index()];
    if (given == nullptr && IsGiven(plan_.tensors[alloc.tensor.index()].role))
      given = arena_ + alloc.region.offset;
    return absl::OkStatus();
  }
  absl::Status BindAction(const FreeAction& /*free*/) { return absl::OkStatus(); }

  absl::Status BindAction(const OffloadAction& offload) {
    if (!plan_.tensors[offload.tensor.index()].on_host) TakePlace(offload);
    executor_.operations_.emplace_back(
        Transfer{action_, Stream::kD2h, copies_[offload.tensor.index()], Place(offload.tensor),
                 Bytes(offload.tensor), End(offload.tensor)});
    return absl::OkStatus();
  }
  void TakePlace(const OffloadAction& offload) {
    const auto pool = static_cast<size_t>(offload.pool);
    const PoolPlace& place = layouts_[pool].places[next_place_[pool]++];
    copies_[offload.tensor.index()] = executor_.pools_[pool].data() + place.offset;
    if (place.wait_for.has_value()) {
      executor_.operations_.emplace_back(WaitEvent{Stream::kD2h, event_of_.at(*place.wait_for)});
    }
  }
  absl::Status BindAction(const PrefetchAction& prefetch) {
    executor_.operations_.emplace_back(Transfer{action_, Stream::kH2d, Place(prefetch.tensor),
                                                copies_[prefetch.tensor.index()],
                                                Bytes(prefetch.tensor), End(prefetch.tensor)});
    return absl::OkStatus();
  }
  absl::Status BindAction(const WaitAction& wait) {
    executor_.operations_.emplace_back(WaitEvent{wait.stream, event_of_.at(wait.on)});
    return absl::OkStatus();
  }

  absl::Status BindAction(const ComputeAction& compute) {
    const Step& step = program_.steps[compute.step.index()];
    RETURN_IF_ERROR(CheckRunnable(step, compute));
    const StepSignature signature = program_.Signature(step, compute.recompute);
    Launch launch = {.action = action_, .operands = OperandAddresses(step, signature, compute)};
    const int64_t scratch = compute.recompute ? 0 : program_.AccumulationScratchBytes(step);
    if (compute.workspace.has_value()) {
      launch.workspace = arena_ + compute.workspace->offset + scratch;
      launch.workspace_bytes = compute.workspace->bytes - scratch;
      launch.end = compute.workspace->end();
    }
    for (const OperandSpec& operand : signature.operands) {
      launch.end = std::max(launch.end, End(TensorOf(step, operand.operand)));
    }
    ASSIGN_OR_RETURN(launch.kernel, KernelFor(program_.StepName(step), signature, compute.engines,
                                              launch.workspace_bytes));
    executor_.operations_.emplace_back(std::move(launch));
    return compute.recompute ? absl::OkStatus() : BindAdditions(step, compute);
  }

  // What a plan may say but this executor does not carry out, and what a program needs beyond what
  // Verify() can know.
  absl::Status CheckRunnable(const Step& step, const ComputeAction& compute) const {
    const std::string name = program_.StepName(step);
    const int64_t scratch = compute.recompute ? 0 : program_.AccumulationScratchBytes(step);
    const int64_t workspace = compute.workspace.has_value() ? compute.workspace->bytes : 0;
    if (scratch <= workspace) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(name, ": its sums of gradients need ", scratch,
                                                   " bytes of workspace, the plan has ",
                                                   workspace));
  }

  // With the bytes of workspace.
  using KernelKey = std::tuple<StepSignature, std::vector<EngineUse>, int64_t>;

  // The kernel of a step's micro-batches; without any, of the only engine there is. Equal steps
  // share it.
  absl::StatusOr<size_t> KernelFor(const std::string& name, const StepSignature& signature,
                                   const std::vector<EngineUse>& parts, int64_t workspace_bytes) {
    const auto [known, is_new] =
        kernel_of_.try_emplace({signature, parts, workspace_bytes}, executor_.kernels_.size());
    if (!is_new) return known->second;
    absl::StatusOr<std::unique_ptr<Kernel>> kernel = MakeKernel(signature, parts, workspace_bytes);
    if (!kernel.ok()) {
      return absl::Status(kernel.status().code(),
                          absl::StrCat(name, ": ", kernel.status().message()));
    }
    executor_.kernels_.push_back(*std::move(kernel));
    return known->second;
  }

  absl::StatusOr<std::unique_ptr<Kernel>> MakeKernel(const StepSignature& signature,
                                                     const std::vector<EngineUse>& parts,
                                                     int64_t workspace_bytes) {
    Backend& backend = executor_.device_->backend();
    if (parts.size() > 1) return MakeDividedKernel(backend, signature, parts, workspace_bytes);
    return MakeKernelWithin(backend, signature, parts.empty() ? "" : parts.front().engine,
                            workspace_bytes);
  }

  // Gradients that the kernel overwrites but the step accumulates go to scratch space, in the order
  // of `accumulates`.
  std::vector<std::pair<Use, std::byte*>> ScratchGradients(const Step& step,
                                                           const ComputeAction& compute) const {
    std::vector<std::pair<Use, std::byte*>> scratch;
    if (step.accumulates_natively || compute.recompute) return scratch;
    int64_t used = 0;
    for (const Use& use : step.accumulates) {
      if (use.operand.slot != Slot::kInputGrad) continue;
      scratch.emplace_back(use, arena_ + compute.workspace->offset + used);
      used += RoundUp(Bytes(use.tensor), kScratchAlignment);
    }
    return scratch;
  }

  std::vector<void*> OperandAddresses(const Step& step, const StepSignature& signature,
                                      const ComputeAction& compute) const {
    const auto scratch = ScratchGradients(step, compute);
    std::vector<void*> addresses;
    for (const OperandSpec& operand : signature.operands) {
      void* address = Place(TensorOf(step, operand.operand));
      for (const auto& [use, place] : scratch) {
        if (use.operand == operand.operand) address = place;
      }
      addresses.push_back(address);
    }
    return addresses;
  }

  static TensorId TensorOf(const Step& step, Operand operand) {
    for (const std::vector<Use>* uses :
         {&step.reads, &step.writes, &step.accumulates, &step.rerun_reads}) {
      for (const Use& use : *uses) {
        if (use.operand == operand) return use.tensor;
      }
    }
    return {};
  }

  // What the kernel leaves undone: sums of gradients.
  absl::Status BindAdditions(const Step& step, const ComputeAction& compute) {
    for (const auto& [use, place] : ScratchGradients(step, compute)) {
      RETURN_IF_ERROR(BindAddition(use.tensor, place));
    }
    for (const Use& addend : step.reads) {
      if (addend.operand.slot != Slot::kAddend) continue;
      const TensorId sum = TensorOf(step, {Slot::kInputGrad, addend.operand.index});
      RETURN_IF_ERROR(BindAddition(sum, Place(addend.tensor)));
    }
    return absl::OkStatus();
  }

  // sum += addend.
  absl::Status BindAddition(TensorId sum, void* addend) {
    ASSIGN_OR_RETURN(
        const size_t kernel,
        KernelFor("sum of gradients", AdditionSignature(program_.tensor(sum).spec), {}, 0));
    void* place = Place(sum);
    executor_.operations_.emplace_back(Launch{
        .action = action_, .kernel = kernel, .operands = {place, addend, place}, .end = End(sum)});
    return absl::OkStatus();
  }

  int64_t Bytes(TensorId tensor) const { return plan_.tensors[tensor.index()].bytes; }
  int64_t End(TensorId tensor) const { return regions_[tensor.index()].end(); }
  std::byte* Place(TensorId tensor) const { return arena_ + regions_[tensor.index()].offset; }

  const Program& program_;
  const Plan& plan_;
  Executor& executor_;
  std::byte* arena_;
  std::byte* homes_;
  std::vector<Region> regions_;  // by TensorId, as of the action at hand
  absl::flat_hash_map<KernelKey, size_t> kernel_of_;
  PoolLayouts layouts_;                             // places of the offloads, in issue order
  std::array<size_t, kPoolCount> next_place_ = {};  // by Pool: of the next offload
  std::vector<std::byte*> copies_;                  // by TensorId, as of the action at hand
  absl::flat_hash_map<int64_t, size_t> event_of_;   // by action index
  size_t joins_ = 0;                                // events after those
  size_t action_ = 0;                               // at hand
};

absl::StatusOr<Executor> Executor::Create(const Program& program, const Plan& plan, Device& device,
                                          std::byte* arena, std::byte* homes) {
  Executor executor(device);
  RETURN_IF_ERROR(Binder(program, plan, executor, arena, homes).Bind());
  return executor;
}

absl::Status Executor::Run() {
  for (const Operation& operation : operations_) {
    RETURN_IF_ERROR(std::visit([this](const auto& op) { return Do(op); }, operation));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ActionTime>> Executor::RunTimed() {
  RETURN_IF_ERROR(MakeTimedEvents());
  std::vector<Span> spans;
  ASSIGN_OR_RETURN(const Event origin, device_->RecordTime(Stream::kCompute));
  for (const Operation& operation : operations_) RETURN_IF_ERROR(DoTimed(operation, spans));
  RETURN_IF_ERROR(device_->Synchronize());
  std::vector<ActionTime> times(action_count_);
  for (size_t i = 0; i < spans.size(); ++i) {
    ActionTime& time = times[spans[i].action];
    const bool is_first = i == 0 || spans[i - 1].action != spans[i].action;
    if (is_first) {
      ASSIGN_OR_RETURN(time.begin_us, device_->ElapsedUs(origin, spans[i].begin));
    }
    ASSIGN_OR_RETURN(time.end_us, device_->ElapsedUs(origin, spans[i].end));
  }
  return times;
}

absl::Status Executor::DoTimed(const Operation& operation, std::vector<Span>& spans) {
  const auto* launch = std::get_if<Launch>(&operation);
  const auto* transfer = std::get_if<Transfer>(&operation);
  const auto run = [&] { return std::visit([this](const auto& op) { return Do(op); }, operation); };
  if (launch == nullptr && transfer == nullptr) return run();
  const Stream stream = transfer == nullptr ? Stream::kCompute : transfer->stream;
  Span span = {.action = transfer == nullptr ? launch->action : transfer->action};
  ASSIGN_OR_RETURN(span.begin, device_->RecordTime(stream));
  RETURN_IF_ERROR(run());
  ASSIGN_OR_RETURN(span.end, device_->RecordTime(stream));
  spans.push_back(std::move(span));
  return absl::OkStatus();
}

// As many as an iteration needs, given back to the device at once: it need not make any then, which
// could hold the streams up.
absl::Status Executor::MakeTimedEvents() {
  std::vector<Event> events(2 * operations_.size() + 1);
  for (Event& event : events) {
    ASSIGN_OR_RETURN(event, device_->RecordTime(Stream::kCompute));
  }
  return absl::OkStatus();
}

absl::Status Executor::Do(const Launch& launch) {
  measured_peak_bytes_ = std::max(measured_peak_bytes_, launch.end);
  return kernels_[launch.kernel]->Run({.operands = launch.operands,
                                       .workspace = launch.workspace,
                                       .workspace_bytes = launch.workspace_bytes});
}

absl::Status Executor::Do(const Transfer& transfer) {
  measured_peak_bytes_ = std::max(measured_peak_bytes_, transfer.end);
  return device_->Copy(transfer.stream, transfer.destination, transfer.source, transfer.bytes);
}

absl::Status Executor::Do(const RecordEvent& record) {
  ASSIGN_OR_RETURN(events_[record.event], device_->Record(record.stream));
  return absl::OkStatus();
}

absl::Status Executor::Do(const WaitEvent& wait) {
  return device_->Wait(wait.stream, events_[wait.event]);
}

}  // namespace neap
