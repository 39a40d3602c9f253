// The memory of a session, and the plans for training and evaluation that run in it. Private to the
// session.
//
// Both plans are bound to one arena, with the persistent tensors in the same places. When they are
// replaced, for another budget or graph, the persistent tensors must survive, although the device
// may not have room for two arenas, and may then refuse the new one:
//
//   SessionMemory memory(device, planner, /*evaluates=*/true, /*records=*/true,
//                        /*communicator=*/nullptr);
//   memory.training().planned = plans.training;  // and the programs, and the inference plan
//   RETURN_IF_ERROR(memory.Reserve());
//   Setup next = {program, other_plans};
//   RETURN_IF_ERROR(memory.Switch(next, /*keep_arena=*/false));
//
// *Ownership*: borrows device and planner.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "neap/core/device/device.h"
#include "neap/core/program/program.h"
#include "neap/core/run/arena.h"
#include "neap/core/run/runtime.h"
#include "neap/core/run/session_planner.h"
#include "neap/core/run/session_results.h"

namespace neap {

// The program and plans that replace a session's current ones when its budget or graph changes.
struct Setup {
  Program training;
  SessionPlans plans;
};

class SessionMemory {
 public:
  // A session that does not evaluate has no inference plan. `communicator` is null for a session
  // that trains alone.
  SessionMemory(Device& device, SessionPlanner& planner, bool evaluates, bool records,
                Communicator* communicator);

  Runtime& training() { return training_; }
  Runtime& inference() { return inference_; }
  const Runtime& training() const { return training_; }
  const Runtime& inference() const { return inference_; }
  int64_t arena_bytes() const { return arena_.size_bytes(); }
  MemoryUse Use() const;

  // Reserves an arena for the plans of both runtimes, and binds them to it. Errors: those of the
  // device and of BindPlan(), such as ABORTED for an engine that cannot be built.
  absl::Status Reserve();

  // Switches to another setup, or keeps the current one on failure. With `keep_arena`, the new
  // plans must fit into the arena and the device must be idle; without it, the switch waits until
  // the device is. Errors: INVALID_ARGUMENT from CheckSamePlaces(); those of Reserve(). After
  // ABORTED, the planner has forgotten its plans and can be asked for others. Only if the device
  // refuses even the memory that it granted before, or a copy back, Check() fails until another
  // switch succeeds.
  absl::Status Switch(Setup& next, bool keep_arena);

  // FAILED_PRECONDITION if the runtimes cannot run.
  absl::Status Check() const;

 private:
  absl::Status Bind(Runtime& runtime);
  void Swap(Setup& other);

  Device& device_;
  SessionPlanner& planner_;
  bool evaluates_;
  Arena arena_;
  Runtime training_;
  Runtime inference_;
};

}  // namespace neap
