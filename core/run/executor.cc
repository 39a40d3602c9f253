#include "neap/core/run/executor.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "neap/core/base/status_macros.h"

namespace neap {

absl::StatusOr<Executor> Executor::Create(const Program& program, const Plan& plan, Device& device,
                                          const PlanMemory& memory, Communicator* communicator) {
  const int ranks = communicator == nullptr ? 1 : communicator->ranks();
  if (ranks != program.options.share.ranks) {
    return absl::InvalidArgumentError(absl::StrCat(program.net.name, ": a program of ",
                                                   program.options.share.ranks,
                                                   " ranks cannot run among ", ranks));
  }
  ASSIGN_OR_RETURN(BoundPlan bound, BindPlan(program, plan, device, memory));
  return Executor(device, communicator, std::move(bound));
}

// The streams of an iteration are joined to the compute stream at its beginning and its end. Only
// the copy of an incoming batch begins earlier.
absl::Status Executor::TakeOver() {
  ASSIGN_OR_RETURN(emptied_, device_->Record(Stream::kCompute));
  return absl::OkStatus();
}

absl::Status Executor::Send(absl::Span<const HostValue> batch,
                            absl::Span<const DeviceValue> on_device) {
  RETURN_IF_ERROR(SendNow(on_device));
  return bound_.incoming_end > 0 ? SendAhead(batch) : SendNow(batch);
}

absl::Status Executor::SendNow(absl::Span<const DeviceValue> values) {
  for (const DeviceValue& value : values) {
    std::byte* const place = Address(value.tensor);
    if (place == nullptr) continue;
    RETURN_IF_ERROR(device_->CopyFromNchw(Stream::kCompute, value.nchw, value.spec, place));
  }
  return absl::OkStatus();
}

absl::Status Executor::SendNow(absl::Span<const HostValue> values) {
  for (const HostValue& value : values) {
    std::byte* const place = Address(value.tensor);
    if (place == nullptr) continue;
    RETURN_IF_ERROR(device_->Copy(Stream::kCompute, place, value.data, value.size_bytes));
  }
  return absl::OkStatus();
}

absl::Status Executor::SendAhead(absl::Span<const HostValue> batch) {
  const auto copy = [this](Stream stream, void* to, const void* from, const HostValue& value) {
    if (Address(value.tensor) == nullptr) return absl::OkStatus();
    return device_->Copy(stream, to, from, value.size_bytes);
  };
  measured_peak_bytes_ = std::max(measured_peak_bytes_, bound_.incoming_end);
  if (emptied_ != nullptr) RETURN_IF_ERROR(device_->Wait(Stream::kInput, emptied_));
  for (const HostValue& value : batch) {
    RETURN_IF_ERROR(copy(Stream::kInput, bound_.incoming[value.tensor.index()], value.data, value));
  }
  ASSIGN_OR_RETURN(const Event arrived, device_->Record(Stream::kInput));
  RETURN_IF_ERROR(device_->Wait(Stream::kCompute, arrived));
  for (const HostValue& value : batch) {
    RETURN_IF_ERROR(copy(Stream::kCompute, Address(value.tensor),
                         bound_.incoming[value.tensor.index()], value));
  }
  ASSIGN_OR_RETURN(emptied_, device_->Record(Stream::kCompute));
  return absl::OkStatus();
}

absl::Status Executor::Run() {
  if (has_run_ && may_record_) {
    absl::StatusOr<std::vector<RecordedKernels>> recorded = Record();
    // Work that cannot be recorded (another device, a kernel of the user's that waits) is enqueued.
    recording_status_ = recorded.status();
    if (recorded.ok()) recorded_ = *std::move(recorded);
    may_record_ = false;
  }
  has_run_ = has_run_ || !bound_.pause.has_value();
  return EnqueueFast(0, bound_.pause.value_or(bound_.operations.size()));
}

absl::Status Executor::Resume(absl::Span<const HostValue> gradients,
                              absl::Span<const DeviceValue> on_device) {
  RETURN_IF_ERROR(SendNow(on_device));
  RETURN_IF_ERROR(SendNow(gradients));
  has_run_ = true;
  return EnqueueFast(*bound_.pause, bound_.operations.size());
}

absl::Status Executor::EnqueueFast(size_t begin, size_t end) {
  size_t enqueued = begin;
  for (const RecordedKernels& kernels : recorded_) {
    if (kernels.begin < begin || kernels.begin >= end) continue;
    RETURN_IF_ERROR(Enqueue(enqueued, kernels.begin));
    RETURN_IF_ERROR(device_->Replay(*kernels.recording));
    enqueued = kernels.end;
  }
  return Enqueue(enqueued, end);
}

absl::StatusOr<std::vector<Executor::RecordedKernels>> Executor::Record() {
  std::vector<RecordedKernels> recorded;
  const std::vector<BoundPlan::Operation>& operations = bound_.operations;
  for (auto begin = operations.begin(), end = begin; begin != operations.end(); begin = end) {
    int64_t parts = 0;
    for (; end != operations.end(); ++end) {
      const auto* const launch = std::get_if<BoundPlan::Launch>(&*end);
      if (launch == nullptr) break;
      parts += launch->parts;
    }
    if (parts < kMinRecorded) {
      end = std::max(end, begin + 1);
      continue;
    }
    RecordedKernels kernels = {.begin = static_cast<size_t>(begin - operations.begin()),
                               .end = static_cast<size_t>(end - operations.begin())};
    ASSIGN_OR_RETURN(kernels.recording,
                     device_->Capture([&] { return Enqueue(kernels.begin, kernels.end); }));
    recorded.push_back(std::move(kernels));
  }
  return recorded;
}

absl::Status Executor::Enqueue(size_t begin, size_t end) {
  for (size_t i = begin; i < end; ++i) {
    RETURN_IF_ERROR(std::visit([this](const auto& op) { return Do(op); }, bound_.operations[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ActionTime>> Executor::RunTimed() {
  RETURN_IF_ERROR(MakeTimedEvents());
  std::vector<Span> spans;
  ASSIGN_OR_RETURN(const Event origin, device_->RecordTime(Stream::kCompute));
  for (const BoundPlan::Operation& operation : bound_.operations)
    RETURN_IF_ERROR(DoTimed(operation, spans));
  RETURN_IF_ERROR(device_->Synchronize());
  std::vector<ActionTime> times(bound_.names.size());
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

absl::Status Executor::DoTimed(const BoundPlan::Operation& operation, std::vector<Span>& spans) {
  const auto run = [&] { return std::visit([this](const auto& op) { return Do(op); }, operation); };
  Stream stream = Stream::kCompute;
  Span span;
  if (const auto* launch = std::get_if<BoundPlan::Launch>(&operation)) {
    span.action = launch->action;
  } else if (const auto* transfer = std::get_if<BoundPlan::Transfer>(&operation)) {
    stream = transfer->stream;
    span.action = transfer->action;
  } else if (const auto* collective = std::get_if<BoundPlan::Collective>(&operation)) {
    stream = Stream::kCollective;
    span.action = collective->action;
  } else {
    return run();
  }
  ASSIGN_OR_RETURN(span.begin, device_->RecordTime(stream));
  RETURN_IF_ERROR(run());
  ASSIGN_OR_RETURN(span.end, device_->RecordTime(stream));
  spans.push_back(std::move(span));
  return absl::OkStatus();
}

// Creates as many timed events as an iteration needs, and releases them at once: the device can
// then reuse them and need not create any during the iteration, which could stall the streams.
absl::Status Executor::MakeTimedEvents() {
  std::vector<Event> events(2 * bound_.operations.size() + 1);
  for (Event& event : events) {
    ASSIGN_OR_RETURN(event, device_->RecordTime(Stream::kCompute));
  }
  return absl::OkStatus();
}

absl::Status Executor::Do(const BoundPlan::Launch& launch) {
  measured_peak_bytes_ = std::max(measured_peak_bytes_, launch.end);
  return Named(launch.action,
               bound_.kernels[launch.kernel]->Run({.operands = launch.operands,
                                                   .workspace = launch.workspace,
                                                   .workspace_bytes = launch.workspace_bytes}));
}

absl::Status Executor::Do(const BoundPlan::Transfer& transfer) {
  measured_peak_bytes_ = std::max(measured_peak_bytes_, transfer.end);
  return Named(transfer.action, device_->Copy(transfer.stream, transfer.destination,
                                              transfer.source, transfer.bytes));
}

absl::Status Executor::Do(const BoundPlan::Collective& collective) {
  measured_peak_bytes_ = std::max(measured_peak_bytes_, collective.end);
  switch (collective.phase) {
    case Phase::kReduceScatter:
      return Named(collective.action, communicator_->ReduceScatter(collective.sharded));
    case Phase::kAllGather:
      return Named(collective.action, communicator_->AllGather(collective.sharded));
    default:
      return Named(collective.action, communicator_->AllReduce(collective.tensors));
  }
}

absl::Status Executor::Do(const BoundPlan::Pause& pause) {
  measured_peak_bytes_ = std::max(measured_peak_bytes_, pause.end);
  return absl::OkStatus();
}

absl::Status Executor::GatherParameters() {
  RETURN_IF_ERROR(Join(Stream::kCollective, Stream::kCompute));
  for (const BoundPlan::Operation& operation : bound_.operations) {
    const auto* const collective = std::get_if<BoundPlan::Collective>(&operation);
    if (collective != nullptr && collective->phase == Phase::kAllGather)
      RETURN_IF_ERROR(Do(*collective));
  }
  return Join(Stream::kCompute, Stream::kCollective);
}

absl::Status Executor::Join(Stream later, Stream earlier) {
  ASSIGN_OR_RETURN(const Event reached, device_->Record(earlier));
  return device_->Wait(later, reached);
}

absl::Status Executor::Named(size_t action, const absl::Status& status) const {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(bound_.names[action], ": ", status.message()));
}

absl::Status Executor::Do(const BoundPlan::RecordEvent& record) {
  ASSIGN_OR_RETURN(events_[record.event], device_->Record(record.stream));
  return absl::OkStatus();
}

absl::Status Executor::Do(const BoundPlan::WaitEvent& wait) {
  return device_->Wait(wait.stream, events_[wait.event]);
}

}  // namespace neap
