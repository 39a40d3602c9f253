// Replays a plan on a device, iteration after iteration.
//
// Create() binds the plan to the device once (core/run/binder.h). Run() then only walks a flat list
// and enqueues: it allocates nothing, decides nothing and never waits for the device, so the host
// runs ahead and the device never idles.
//
//   ASSIGN_OR_RETURN(Executor executor, Executor::Create(program, plan, device, arena.data()));
//   // ... copy the batch to executor.Address(program.images) on the compute stream ...
//   RETURN_IF_ERROR(executor.Run());  // one iteration, enqueued
//   RETURN_IF_ERROR(device.Synchronize());
//
// RunTimed() enqueues the same with an event before and after every kernel and copy, and reads the
// times once all has ended: the host waits for nothing in between, so that the streams overlap as
// they do untimed.
//
// The plan must have passed Verify() and MatchesProgram(). *Ownership*: borrows device and arena,
// which must outlive it. *Streams*: all three; the batch may be brought on the compute stream.
// *Errors*: those of BindPlan(), the backend and the device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/plan.h"
#include "neap/core/plan/timeline.h"
#include "neap/core/program/program.h"
#include "neap/core/run/binder.h"

namespace neap {

class Executor {
 public:
  // `host_residents`: pinned memory of Plan::host_resident_bytes for the tensors that are on the
  // host between iterations; may be null where there are none.
  static absl::StatusOr<Executor> Create(const Program& program, const Plan& plan, Device& device,
                                         std::byte* arena, std::byte* host_residents = nullptr);

  absl::Status Run();

  // Run(), and then waits for its end: when each action ran that takes time, by action index, from
  // the iteration's beginning on the compute stream (MeasuredTimeline() makes a timeline of it). A
  // compute action is all of its kernels, additions of gradients included.
  absl::StatusOr<std::vector<ActionTime>> RunTimed();

  // Where a given tensor (persistent, input, label) lies when an iteration begins, or
  // Program::predictions when one of inference has ended, in the arena or in `host_residents`; null
  // if the plan has no place for it.
  std::byte* Address(TensorId tensor) const { return bound_.given[tensor.index()]; }

  // The highest arena address that Run() has handed to a kernel or a copy, as bytes from the
  // arena's beginning. Compare with Plan::peak_bytes.
  int64_t measured_peak_bytes() const { return measured_peak_bytes_; }

 private:
  // A launch or a transfer, between two events with time.
  struct Span {
    size_t action = 0;
    Event begin, end;
  };

  Executor(Device& device, BoundPlan bound)
      : device_(&device), bound_(std::move(bound)), events_(bound_.events) {}
  absl::Status Do(const BoundPlan::Launch& launch);
  absl::Status Do(const BoundPlan::Transfer& transfer);
  absl::Status Do(const BoundPlan::RecordEvent& record);
  absl::Status Do(const BoundPlan::WaitEvent& wait);
  absl::Status DoTimed(const BoundPlan::Operation& operation, std::vector<Span>& spans);
  absl::Status MakeTimedEvents();

  Device* device_;
  BoundPlan bound_;
  std::vector<Event> events_;
  int64_t measured_peak_bytes_ = 0;
};

}  // namespace neap
