// Binding: a plan's actions made into a flat list of operations on one device.
//
// All that depends on the device is settled here, once, so that carrying the plan out is a walk
// over the list: offsets become addresses in the arena and the pools, engines become kernels, waits
// become events. Nothing is decided: every place and every wait is in the plan. What is added to it
// is at its two ends, where the streams of one iteration meet those of the next, and the additions
// of gradients that a kernel does not do by itself.
//
//   actions      alloc x   compute 0   wait d2h on 1   offload x            ...
//   operations             launch,     wait event,     copy 2048 bytes      ...
//                          record
//
//   ASSIGN_OR_RETURN(BoundPlan bound, BindPlan(program, plan, device, {.arena = arena.data()}));
//   bound.operations;   // what core/run/executor.h walks
//
// The plan must have passed Verify() and MatchesProgram(). *Errors*: those of the backend and the
// device; NOT_FOUND when the plan names an engine that this library version does not have,
// INVALID_ARGUMENT when a workspace is too small for its engine, or when a step is divided into
// micro-batches that cannot be.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/plan.h"
#include "neap/core/program/program.h"

namespace neap {

// *Ownership*: owns kernels and the pools' memory; its operations point into those and into the
// memory that it was bound to.
struct BoundPlan {
  struct Launch {
    size_t action = 0;  // index
    size_t kernel = 0;  // index into `kernels`
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
  struct RecordEvent {
    Stream stream = Stream::kCompute;
    size_t event = 0;
  };
  struct WaitEvent {
    Stream stream = Stream::kCompute;
    size_t event = 0;
  };
  using Operation = std::variant<Launch, Transfer, RecordEvent, WaitEvent>;

  std::vector<std::unique_ptr<Kernel>> kernels;
  std::vector<Operation> operations;
  size_t events = 0;   // number of events that the operations name
  size_t actions = 0;  // of the plan
  // By TensorId: where a given tensor lies when an iteration begins, and where Program::predictions
  // lie when one of inference has ended; null if it has no place.
  std::vector<std::byte*> given;
  std::array<Buffer, kPoolCount> pools;  // by Pool; without the host's residents
};

// Memory that outlives the binding.
struct PlanMemory {
  std::byte* arena = nullptr;  // Plan::arena_bytes
  // Pinned, Plan::host_resident_bytes: the beginning of the host's pool. It lasts longer than the
  // rest of the pool, which BindPlan() allocates.
  std::byte* host_residents = nullptr;
};

absl::StatusOr<BoundPlan> BindPlan(const Program& program, const Plan& plan, Device& device,
                                   const PlanMemory& memory);

}  // namespace neap
