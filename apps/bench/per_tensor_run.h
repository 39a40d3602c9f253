// Runs a plan without an arena: every tensor and workspace has bytes of its own, which the device
// allocates when the plan begins to use them and frees when it ends, as frameworks without a memory
// pool do.
//
// The plan is bound to an arena that does not exist. Before each kernel and copy its addresses are
// translated: the distance from the arena's beginning says which of the allocations that are alive
// is meant. Only tensors that live from one iteration to the next stay in one block.
//
//   ASSIGN_OR_RETURN(PerTensorRun run, PerTensorRun::Create(program, plan, device));
//   RETURN_IF_ERROR(run.SetPersistent(start));  // their bytes, as the plan places them
//   RETURN_IF_ERROR(run.Iterate(batch));        // enqueues an iteration
//   run.allocations();                          // of one iteration
//
// Memory that other streams still use must not be freed. cudaFree waits until the GPU is idle; for
// other devices Iterate() waits before it frees. *Ownership*: borrows program, plan and device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/plan.h"
#include "neap/core/program/program.h"
#include "neap/core/run/binder.h"
#include "neap/core/run/executor.h"

namespace neap::apps {

class PerTensorRun {
 public:
  // The plan has passed Verify() and MatchesProgram(), and is of one rank. Errors: those of
  // BindPlan() and the device.
  static absl::StatusOr<PerTensorRun> Create(const Program& program, const Plan& plan,
                                             Device& device);

  // The bytes of persistent tensors, which begin the arena.
  int64_t persistent_bytes() const { return persistent_.size_bytes(); }
  absl::Status SetPersistent(const Buffer& host);
  absl::Status GetPersistent(Buffer& host);

  // Enqueues an iteration on this batch, whose values must not change until it has finished.
  // Errors: those of the device, with which the run may not go on.
  absl::Status Iterate(absl::Span<const Executor::HostValue> batch);
  int64_t allocations() const { return allocations_; }

 private:
  // An allocation, and how many tensors share it in place.
  struct Live {
    Buffer buffer;
    int64_t end = 0;  // of its region in the arena that does not exist
    int tensors = 0;
  };

  PerTensorRun(const Program& program, const Plan& plan, Device& device, BoundPlan bound)
      : program_(&program),
        plan_(&plan),
        device_(&device),
        bound_(std::move(bound)),
        events_(bound_.events),
        regions_(plan.tensors.size()) {}

  absl::Status Allocate(const Region& region);
  absl::Status Free(const Region& region);
  absl::Status FreeAll();
  absl::Status WaitBeforeFree();
  // The address that stands for this one. Addresses outside the arena that does not exist are kept.
  void* Translated(const void* address) const;

  absl::Status Begin(const AllocAction& alloc, absl::Span<const Executor::HostValue> batch);
  // Enqueues the operations of the action, and of those before it.
  absl::Status EnqueueUntil(size_t action, size_t& next);
  absl::Status Do(const BoundPlan::Launch& launch);
  absl::Status Do(const BoundPlan::Transfer& transfer);
  absl::Status Do(const BoundPlan::Collective& collective);
  absl::Status Do(const BoundPlan::Pause& pause);
  absl::Status Do(const BoundPlan::RecordEvent& record);
  absl::Status Do(const BoundPlan::WaitEvent& wait);

  const Program* program_;
  const Plan* plan_;
  Device* device_;
  BoundPlan bound_;
  std::vector<Event> events_;
  std::vector<Region> regions_;   // by TensorId: as of the current action
  std::map<int64_t, Live> live_;  // by the region's offset
  Buffer persistent_;
  int64_t allocations_ = 0;  // of the last iteration
};

}  // namespace neap::apps
