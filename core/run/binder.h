// Binding: translates a plan's actions to a flat list of operations on one device.
//
// Everything that depends on the device is resolved here, once, so that executing the plan is a
// walk over the list: offsets become addresses in the arena and the pools, engines become kernels,
// waits become events. Nothing is decided: every place and every wait is in the plan. The binder
// only adds synchronisation at the two ends, where the streams of one iteration meet those of the
// next, and the additions of gradients that a kernel does not perform by itself.
//
//   actions      alloc x   compute 0   wait d2h on 1   offload x            ...
//   operations             launch,     wait event,     copy 2048 bytes      ...
//                          record
//
//   ASSIGN_OR_RETURN(BoundPlan bound, BindPlan(program, plan, device, {.arena = arena.data()}));
//   bound.operations;  // the list that core/run/executor.h walks
//
// The plan must have passed Verify() and MatchesProgram(). *Errors*: those of the backend and the
// device; NOT_FOUND if the plan names an engine that this library version does not have;
// INVALID_ARGUMENT if a workspace is too small for its engine, or if a step that cannot be divided
// has several micro-batches; FAILED_PRECONDITION, naming the tensor, if an external one has no
// address.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/device/communicator.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/plan.h"
#include "neap/core/program/program.h"
#include "neap/core/run/external.h"

namespace neap {

// *Ownership*: owns the kernels, and the pools' memory unless it is given; the operations point
// into those and into the memory to which the plan was bound.
struct BoundPlan {
  struct Launch {
    size_t action = 0;  // index
    size_t kernel = 0;  // index into `kernels`
    int64_t parts = 1;  // of the batch, which the kernel runs one after another
    std::vector<void*> operands;
    void* workspace = nullptr;
    int64_t workspace_bytes = 0;
    int64_t end = 0;  // highest byte of the arena that it touches
  };
  struct Transfer {
    size_t action = 0;  // index
    Stream stream = Stream::kD2h;
    void* destination = nullptr;
    const void* source = nullptr;
    int64_t bytes = 0;
    int64_t end = 0;  // highest byte of the arena that it touches
  };
  struct Collective {   // of all ranks
    size_t action = 0;  // index
    Phase phase = Phase::kAllReduce;
    std::vector<ReduceBuffer> tensors = {};   // of kAllReduce
    std::vector<ShardedTensor> sharded = {};  // of kReduceScatter and kAllGather
    int64_t end = 0;                          // highest byte of the arena that it touches
  };
  struct Pause {      // of the iteration: gradients that are given arrive
    int64_t end = 0;  // highest byte of the arena that it touches
  };
  struct RecordEvent {
    Stream stream = Stream::kCompute;
    size_t event = 0;
  };
  struct WaitEvent {
    Stream stream = Stream::kCompute;
    size_t event = 0;
  };
  using Operation = std::variant<Launch, Transfer, Collective, Pause, RecordEvent, WaitEvent>;

  std::vector<std::unique_ptr<Kernel>> kernels;
  std::vector<Operation> operations;
  std::optional<size_t> pause;  // index of the operation; nullopt if the iteration does not pause
  size_t events = 0;            // number of events that the operations use
  // By action, for messages: "conv1 forward", "relu1 forward again", "relu1:y to the host"; empty
  // for one without an operation.
  std::vector<std::string> names;
  // By TensorId: the address of an input or label in Plan::incoming_batch; null if there is none.
  std::vector<std::byte*> incoming;
  int64_t incoming_end = 0;  // of Plan::incoming_batch
  // By TensorId: the address of a given tensor when an iteration begins, of KeptResults() when it
  // has ended, and of outputs and their gradients at the pause; null if the tensor has no place.
  std::vector<std::byte*> given;
  std::array<Buffer, kPoolCount> pools;  // by Pool: those that PlanMemory lacks
};

// The memory to which a plan is bound. It must outlive the BoundPlan. Several plans may share it,
// if their iterations do not overlap.
struct PlanMemory {
  std::byte* arena = nullptr;  // Plan::arena_bytes
  // Plan::host_resident_bytes of pinned memory: the beginning of the host's pool, which keeps its
  // values between iterations.
  std::byte* host_residents = nullptr;
  // By Pool: PoolBytes(). BindPlan() allocates those that are null.
  std::array<std::byte*, kPoolCount> pools = {};
  ExternalAddresses external = {};
};
// The bytes of a pool that hold copies during an iteration: the host's without its residents.
int64_t PoolBytes(const Plan& plan, Pool pool);

absl::StatusOr<BoundPlan> BindPlan(const Program& program, const Plan& plan, Device& device,
                                   const PlanMemory& memory);

}  // namespace neap
