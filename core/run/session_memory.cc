#include "neap/core/run/session_memory.h"

#include <algorithm>
#include <utility>

#include "neap/core/base/status_macros.h"

namespace neap {

SessionMemory::SessionMemory(Device& device, SessionPlanner& planner, bool evaluates, bool records,
                             Communicator* communicator)
    : device_(device), planner_(planner), evaluates_(evaluates), arena_(device) {
  training_.records = inference_.records = records;
  training_.communicator = communicator;
}

absl::Status SessionMemory::Reserve() {
  training_.executor.reset();
  inference_.executor.reset();
  const Plan& training = training_.planned.plan;
  const Plan& inference = inference_.planned.plan;
  RETURN_IF_ERROR(
      arena_.Reserve(std::max(training.arena_bytes, inference.arena_bytes),
                     std::max(training.host_resident_bytes, inference.host_resident_bytes)));
  RETURN_IF_ERROR(Bind(training_));
  return evaluates_ ? Bind(inference_) : absl::OkStatus();
}

absl::Status SessionMemory::Switch(Setup& next, bool keep_arena) {
  // Persistent tensors return to the bytes of the arena from which they were taken.
  RETURN_IF_ERROR(CheckSamePlaces(training_.planned.plan, next.plans.training.plan));
  if (!keep_arena) RETURN_IF_ERROR(arena_.Evacuate(PersistentEnd(training_.planned.plan)));
  const auto prepare = [&] { return keep_arena ? Bind(training_) : Reserve(); };
  Swap(next);
  const absl::Status refused = prepare();
  if (absl::IsAborted(refused)) planner_.Forget();
  if (!refused.ok()) {
    Swap(next);
    RETURN_IF_ERROR(prepare());
  }
  if (!keep_arena) RETURN_IF_ERROR(arena_.Return());
  return refused;
}

MemoryUse SessionMemory::Use() const {
  const std::optional<Executor>& executor = training_.executor;
  return {.predicted_peak_bytes = training_.planned.plan.peak_bytes,
          .measured_peak_bytes = executor.has_value() ? executor->measured_peak_bytes() : 0,
          .arena_bytes = arena_bytes(),
          .peer_bytes = training_.planned.plan.peer_pool_bytes};
}

absl::Status SessionMemory::Check() const {
  const bool bound =
      training_.executor.has_value() && (!evaluates_ || inference_.executor.has_value());
  if (bound && !arena_.is_evacuated()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the device has refused memory or a copy; the parameters are kept until SetBudget() finds "
      "room");
}

absl::Status SessionMemory::Bind(Runtime& runtime) {
  return runtime.Bind(device_, arena_.data(), arena_.host_residents());
}

void SessionMemory::Swap(Setup& other) {
  std::swap(training_.program, other.training);
  std::swap(training_.planned, other.plans.training);
  std::swap(inference_.planned, other.plans.inference);
}

}  // namespace neap
