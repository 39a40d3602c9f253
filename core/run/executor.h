// Replays a plan on a device, iteration after iteration.
//
// Create() binds the plan to the device once (core/run/binder.h). Run() then only walks a flat list
// and enqueues: it decides nothing and never waits for the device, so the host runs ahead and the
// device does not idle. It allocates nothing but the recordings of the second iteration.
//
//   ASSIGN_OR_RETURN(Executor executor, Executor::Create(program, plan, device, {arena.data()}));
//   RETURN_IF_ERROR(executor.Send({{images, pixels.data(), pixels.size_bytes()}}));
//   RETURN_IF_ERROR(executor.Run());  // enqueues one iteration
//   RETURN_IF_ERROR(device.Synchronize());
//
// If the plan has bytes for an incoming batch, Send() lets the copy from the host overlap with the
// iteration before:
//
//   input    |batch 1 ->|               |batch 2 ->|
//   compute             |>|  iteration 1      |>|  iteration 2      |>|
//                       within the device, from the bytes of the incoming batch to the batch's own
//
// On a device that can record work (as a CUDA graph), the second iteration's kernels are recorded,
// and are replayed in it and in later ones: each run of kernels without a copy, an event or a wait
// between them is one recording, which one call enqueues. Short runs are not recorded: a graph
// takes about as long to launch as three kernels, and 0.2 MiB of the device's memory. The first
// iteration is not recorded, because libraries load code when a kernel first runs, and because a
// plan may be used only once.
// Copies stay outside: in one CUDA graph of all three streams, copies to the host take a fifth
// longer, and ResNet-50 in 3.66 GiB is 5% slower than this way (docs/results.md).
//
//   compute  |recording 1|event|recording 2      |wait|recording 3 |
//   d2h                        |wait|copy ->|event|
//
// A program whose outputs have gradients that the caller gives (core/graph/caller.h) is run in two
// calls. Copies to the host and back may go on between them; recordings end before the pause.
//
//   compute  |forward |outputs to the host|   pause   |gradients |backward        |
//            Run()                                     Resume()
//
// RunTimed() enqueues the same work with an event before and after every kernel and copy, and reads
// the times when everything has finished. The host does not wait in between, so the streams overlap
// as in an untimed run.
//
// The plan must have passed Verify() and MatchesProgram(). *Ownership*: borrows device, memory and
// communicator, which must outlive it. *Streams*: all five.
// *Errors*: those of BindPlan(), the backend and the device; for a kernel or a copy, with its name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/core/device/communicator.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/plan.h"
#include "neap/core/plan/timeline.h"
#include "neap/core/program/program.h"
#include "neap/core/run/binder.h"

namespace neap {

class Executor {
 public:
  // The kernels of the shortest run that is recorded. One that runs a batch in parts counts as its
  // number of parts.
  static constexpr int64_t kMinRecorded = 4;

  // `communicator` is that of the program's rank; null if it is alone.
  static absl::StatusOr<Executor> Create(const Program& program, const Plan& plan, Device& device,
                                         const PlanMemory& memory,
                                         Communicator* communicator = nullptr);

  // To be called when another executor has run in the same memory since this one did: what Send()
  // and Run() enqueue follows all that was enqueued before.
  absl::Status TakeOver();

  // An input or a label of an iteration, in pinned memory of the host.
  struct HostValue {
    TensorId tensor;
    const std::byte* data = nullptr;
    int64_t size_bytes = 0;
  };
  // An input in the device's memory: fp32 values in N, C, H, W order, from which the tensor's bytes
  // are made.
  struct DeviceValue {
    TensorId tensor;
    TensorSpec spec;
    const float* nchw = nullptr;
  };
  // Enqueues the copy of the next iteration's batch to the device, without the values for which the
  // plan has no place. The buffers may change once that iteration has finished.
  absl::Status Send(absl::Span<const HostValue> batch,
                    absl::Span<const DeviceValue> on_device = {});

  // Enqueues an iteration, or that part of it which comes before its pause.
  absl::Status Run();
  // Enqueues the rest of an iteration that pauses, which begins with the copy of the gradients of
  // the program's outputs. The buffers may change once the iteration has finished.
  absl::Status Resume(absl::Span<const HostValue> gradients,
                      absl::Span<const DeviceValue> on_device = {});
  // Run() never records.
  void DisableRecording() {
    may_record_ = false;
    recording_status_ = absl::CancelledError("recording is switched off");
  }
  // Ok if kernels are replayed. Otherwise why not: FAILED_PRECONDITION before the second one,
  // CANCELLED after DisableRecording(), or the error of the device.
  const absl::Status& recording_status() const { return recording_status_; }

  // Runs like Run(), waits for the end, and returns, by action index, when each action that takes
  // time ran, counted from the iteration's beginning on the compute stream (MeasuredTimeline()
  // makes a timeline of it). A compute action includes all of its kernels, and additions of
  // gradients. Not of a program that pauses.
  absl::StatusOr<std::vector<ActionTime>> RunTimed();

  // Enqueues the gathering of the parameters with which an iteration of a sharded optimizer begins
  // (core/program/shards.h). To be called by all ranks, between two iterations.
  absl::Status GatherParameters();

  // The address, in the arena or among the residents of the host, of a given tensor (persistent,
  // input, label) when an iteration begins, of KeptResults() (core/program/results.h) when it has
  // ended, or of an output and its gradient at the pause; null if the plan has no place for it.
  std::byte* Address(TensorId tensor) const { return bound_.given[tensor.index()]; }

  // The highest arena address that Send() and Run() have passed to a kernel or a copy, as bytes
  // from the arena's beginning; to be compared with Plan::peak_bytes.
  int64_t measured_peak_bytes() const { return measured_peak_bytes_; }

 private:
  // A launch, a transfer or a sum between two timed events.
  struct Span {
    size_t action = 0;
    Event begin, end;
  };

  // The launches from operation index `begin` to `end`.
  struct RecordedKernels {
    size_t begin = 0;
    size_t end = 0;
    std::unique_ptr<Recording> recording;
  };

  Executor(Device& device, Communicator* communicator, BoundPlan bound)
      : device_(&device),
        communicator_(communicator),
        bound_(std::move(bound)),
        events_(bound_.events) {}
  absl::Status SendNow(absl::Span<const HostValue> values);
  absl::Status SendNow(absl::Span<const DeviceValue> values);
  absl::Status SendAhead(absl::Span<const HostValue> batch);
  absl::StatusOr<std::vector<RecordedKernels>> Record();
  // Enqueues the operations from index `begin` to `end`; EnqueueFast() replays what is recorded of
  // them, of which recordings have all launches or none.
  absl::Status Enqueue(size_t begin, size_t end);
  absl::Status EnqueueFast(size_t begin, size_t end);
  absl::Status Do(const BoundPlan::Launch& launch);
  absl::Status Do(const BoundPlan::Transfer& transfer);
  absl::Status Do(const BoundPlan::Collective& collective);
  absl::Status Do(const BoundPlan::Pause& pause);
  absl::Status Do(const BoundPlan::RecordEvent& record);
  absl::Status Do(const BoundPlan::WaitEvent& wait);
  // `later` continues when `earlier` has finished all its work.
  absl::Status Join(Stream later, Stream earlier);
  // The status, with the action's name if it is an error.
  absl::Status Named(size_t action, const absl::Status& status) const;
  absl::Status DoTimed(const BoundPlan::Operation& operation, std::vector<Span>& spans);
  absl::Status MakeTimedEvents();

  Device* device_;
  Communicator* communicator_;
  BoundPlan bound_;
  std::vector<Event> events_;
  Event emptied_;  // the bytes of the incoming batch may be filled again; null before the first
  int64_t measured_peak_bytes_ = 0;
  bool has_run_ = false;
  bool may_record_ = true;  // and has not tried
  absl::Status recording_status_ =
      absl::FailedPreconditionError("the second iteration is recorded");
  std::vector<RecordedKernels> recorded_;  // in order; empty before the second iteration
};

}  // namespace neap
