// Replays a plan on a device, iteration after iteration.
//
// Create() resolves everything once: addresses from offsets, kernels from engines, events from
// waits. Run() then only walks a flat list and enqueues: it allocates nothing, decides nothing and
// never waits for the device, so the host runs ahead and the device never idles.
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
// *Errors*: those of the backend and the device; NOT_FOUND when the plan names an engine that this
// library version does not have, INVALID_ARGUMENT when a workspace is too small for its engine,
// or when a step is divided into micro-batches that cannot be.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/plan.h"
#include "neap/core/plan/timeline.h"
#include "neap/core/program/program.h"

namespace neap {

class Executor {
 public:
  // `homes`: pinned memory of LayOutHostHomes(plan).bytes for the tensors that are on the host
  // between iterations; may be null where there are none.
  static absl::StatusOr<Executor> Create(const Program& program, const Plan& plan, Device& device,
                                         std::byte* arena, std::byte* homes = nullptr);

  absl::Status Run();

  // Run(), and then waits for its end: when each action ran that takes time, by action index, from
  // the iteration's beginning on the compute stream (MeasuredTimeline() makes a timeline of it). A
  // compute action is all of its kernels, additions of gradients included.
  absl::StatusOr<std::vector<ActionTime>> RunTimed();

  // Where a given tensor (persistent, input, label) lies when an iteration begins, in the arena or
  // in `homes`; null if the plan has no use for it.
  std::byte* Address(TensorId tensor) const { return given_[tensor.index()]; }

  // The highest arena address that Run() has handed to a kernel or a copy, as bytes from the
  // arena's beginning. Compare with Plan::peak_bytes.
  int64_t measured_peak_bytes() const { return measured_peak_bytes_; }

 private:
  struct Launch {
    size_t action = 0;  // index
    size_t kernel = 0;  // index into kernels_
    std::vector<void*> operands;
    void* workspace = nullptr;
    int64_t workspace_bytes = 0;
    int64_t end = 0;  // highest byte touched
  };
  struct Transfer {
    size_t action = 0;  // index
    Stream stream = Stream::kD2h;
    void* destination = nullptr;
    const void* source = nullptr;
    int64_t bytes = 0;
    int64_t end = 0;
  };
  struct RecordEvent {
    Stream stream = Stream::kCompute;
    size_t event = 0;
  };
  struct WaitEvent {
    Stream stream = Stream::kCompute;
    size_t event = 0;
  };
  using Operation = std::variant<Launch, Transfer, RecordEvent, WaitEvent>;
  // A launch or a transfer, between two events with time.
  struct Span {
    size_t action = 0;
    Event begin, end;
  };
  class Binder;

  explicit Executor(Device& device) : device_(&device) {}
  absl::Status Do(const Launch& launch);
  absl::Status Do(const Transfer& transfer);
  absl::Status Do(const RecordEvent& record);
  absl::Status Do(const WaitEvent& wait);
  absl::Status DoTimed(const Operation& operation, std::vector<Span>& spans);
  absl::Status MakeTimedEvents();

  Device* device_;
  std::vector<std::unique_ptr<Kernel>> kernels_;
  std::vector<Operation> operations_;
  std::vector<Event> events_;
  std::vector<std::byte*> given_;         // by TensorId
  size_t action_count_ = 0;               // of the plan
  std::array<Buffer, kPoolCount> pools_;  // by Pool
  int64_t measured_peak_bytes_ = 0;
};

}  // namespace neap
