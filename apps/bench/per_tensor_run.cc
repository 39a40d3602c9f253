#include "apps/bench/per_tensor_run.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <variant>

#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/memory/search/action_writer.h"

namespace neap::apps {
namespace {

// The arena that does not exist: only distances from it count.
constexpr uintptr_t kNowhere = uintptr_t{1} << 46;
constexpr int64_t kMaxBytes = int64_t{1} << 45;

std::byte* Nowhere() { return reinterpret_cast<std::byte*>(kNowhere); }

const size_t* ActionOf(const BoundPlan::Operation& operation) {
  if (const auto* launch = std::get_if<BoundPlan::Launch>(&operation)) return &launch->action;
  if (const auto* transfer = std::get_if<BoundPlan::Transfer>(&operation)) return &transfer->action;
  return nullptr;
}

}  // namespace

absl::StatusOr<PerTensorRun> PerTensorRun::Create(const Program& program, const Plan& plan,
                                                  Device& device) {
  if (plan.arena_bytes > kMaxBytes) return absl::ResourceExhaustedError("the arena is too large");
  ASSIGN_OR_RETURN(BoundPlan bound, BindPlan(program, plan, device, {.arena = Nowhere()}));
  PerTensorRun run(program, plan, device, std::move(bound));
  ASSIGN_OR_RETURN(run.persistent_, device.Allocate(MemoryKind::kDevice, PersistentBytes(program)));
  return run;
}

absl::Status PerTensorRun::SetPersistent(const Buffer& host) {
  RETURN_IF_ERROR(
      device_->Copy(Stream::kCompute, persistent_.data(), host.data(), persistent_bytes()));
  return device_->Synchronize();
}

absl::Status PerTensorRun::GetPersistent(Buffer& host) {
  RETURN_IF_ERROR(
      device_->Copy(Stream::kCompute, host.data(), persistent_.data(), persistent_bytes()));
  return device_->Synchronize();
}

absl::Status PerTensorRun::Iterate(absl::Span<const Executor::HostValue> batch) {
  allocations_ = 0;
  size_t next = 0;
  for (size_t i = 0; i < plan_->actions.size(); ++i) {
    const Action& action = plan_->actions[i];
    if (const auto* alloc = std::get_if<AllocAction>(&action))
      RETURN_IF_ERROR(Begin(*alloc, batch));
    const auto* const compute = std::get_if<ComputeAction>(&action);
    const bool has_workspace = compute != nullptr && compute->workspace.has_value();
    if (has_workspace) RETURN_IF_ERROR(Allocate(*compute->workspace));
    RETURN_IF_ERROR(EnqueueUntil(i, next));
    if (has_workspace) RETURN_IF_ERROR(Free(*compute->workspace));
    const auto* const free = std::get_if<FreeAction>(&action);
    if (free != nullptr && regions_[free->tensor.index()].bytes > 0)
      RETURN_IF_ERROR(Free(regions_[free->tensor.index()]));
  }
  return FreeAll();
}

absl::Status PerTensorRun::Begin(const AllocAction& alloc,
                                 absl::Span<const Executor::HostValue> batch) {
  if (IsPersistent(plan_->tensors[alloc.tensor.index()].role)) return absl::OkStatus();
  regions_[alloc.tensor.index()] = alloc.region;
  RETURN_IF_ERROR(Allocate(alloc.region));
  for (const Executor::HostValue& value : batch) {
    if (value.tensor != alloc.tensor) continue;
    RETURN_IF_ERROR(device_->Copy(Stream::kCompute, live_.at(alloc.region.offset).buffer.data(),
                                  value.data, value.size_bytes));
  }
  return absl::OkStatus();
}

absl::Status PerTensorRun::Allocate(const Region& region) {
  Live& live = live_[region.offset];
  if (live.tensors++ > 0) return absl::OkStatus();
  live.end = region.end();
  ++allocations_;
  ASSIGN_OR_RETURN(live.buffer, device_->Allocate(MemoryKind::kDevice, region.bytes));
  return absl::OkStatus();
}

absl::Status PerTensorRun::Free(const Region& region) {
  const auto found = live_.find(region.offset);
  if (found == live_.end()) return absl::InternalError("a region is freed that is not allocated");
  if (--found->second.tensors > 0) return absl::OkStatus();
  RETURN_IF_ERROR(WaitBeforeFree());
  live_.erase(found);
  return absl::OkStatus();
}

absl::Status PerTensorRun::FreeAll() {
  RETURN_IF_ERROR(WaitBeforeFree());
  live_.clear();
  std::fill(regions_.begin(), regions_.end(), Region{});
  return absl::OkStatus();
}

absl::Status PerTensorRun::WaitBeforeFree() {
  return device_->description().kind == "cuda" ? absl::OkStatus() : device_->Synchronize();
}

void* PerTensorRun::Translated(const void* address) const {
  const auto at = reinterpret_cast<uintptr_t>(address);
  if (at < kNowhere || at >= kNowhere + static_cast<uintptr_t>(kMaxBytes))
    return const_cast<void*>(address);
  const auto offset = static_cast<int64_t>(at - kNowhere);
  if (offset < persistent_bytes()) return persistent_.data() + offset;
  const auto above = live_.upper_bound(offset);
  if (above == live_.begin()) return nullptr;
  const auto& [begin, live] = *std::prev(above);
  return offset < live.end ? live.buffer.data() + (offset - begin) : nullptr;
}

absl::Status PerTensorRun::EnqueueUntil(size_t action, size_t& next) {
  for (; next < bound_.operations.size(); ++next) {
    const BoundPlan::Operation& operation = bound_.operations[next];
    const size_t* const of = ActionOf(operation);
    if (of != nullptr && *of > action) return absl::OkStatus();
    RETURN_IF_ERROR(std::visit([this](const auto& op) { return Do(op); }, operation));
  }
  return absl::OkStatus();
}

absl::Status PerTensorRun::Do(const BoundPlan::Launch& launch) {
  std::vector<void*> operands;
  for (const void* operand : launch.operands) {
    operands.push_back(Translated(operand));
    if (operand != nullptr && operands.back() == nullptr)
      return absl::InternalError("an operand is not allocated");
  }
  return bound_.kernels[launch.kernel]->Run({.operands = operands,
                                             .workspace = Translated(launch.workspace),
                                             .workspace_bytes = launch.workspace_bytes});
}

absl::Status PerTensorRun::Do(const BoundPlan::Transfer& transfer) {
  return device_->Copy(transfer.stream, Translated(transfer.destination),
                       Translated(transfer.source), transfer.bytes);
}

absl::Status PerTensorRun::Do(const BoundPlan::Collective& /*collective*/) {
  return absl::UnimplementedError("a program of several ranks");
}

absl::Status PerTensorRun::Do(const BoundPlan::Pause& /*pause*/) {
  return absl::UnimplementedError("a program that pauses");
}

absl::Status PerTensorRun::Do(const BoundPlan::RecordEvent& record) {
  ASSIGN_OR_RETURN(events_[record.event], device_->Record(record.stream));
  return absl::OkStatus();
}

absl::Status PerTensorRun::Do(const BoundPlan::WaitEvent& wait) {
  return device_->Wait(wait.stream, events_[wait.event]);
}

}  // namespace neap::apps
