#include "neap/core/run/session/session_memory.h"

#include <algorithm>
#include <utility>

#include "neap/core/base/status_macros.h"
#include "neap/core/run/session/session_planner.h"

namespace neap {
namespace {

std::vector<std::shared_ptr<Executable>> AllOf(const Executables& executables) {
  std::vector<std::shared_ptr<Executable>> all = executables.training;
  if (executables.inference != nullptr) all.push_back(executables.inference);
  return all;
}

bool IsOf(const Graph& graph, const Executable& executable) {
  return executable.graph.get() == &graph || *executable.graph == graph;
}

// The executable before the others, of which no more than `max` are left besides the family.
Executables WithFirst(const std::shared_ptr<Executable>& first, const Executables& others,
                      size_t max) {
  Executables result = {.training = {first}, .inference = others.inference};
  size_t droppable = 1;
  for (const std::shared_ptr<Executable>& other : others.training) {
    const bool is_same = other->stage == first->stage && IsOf(*first->graph, *other);
    if (is_same) continue;
    if (other->is_of_family || ++droppable <= max) result.training.push_back(other);
  }
  return result;
}

}  // namespace

Executables SessionMemory::Kept() const {
  return WithFirst(executables_.training.front(), executables_, 1);
}

MemoryUse SessionMemory::Use() const {
  MemoryUse use = {.arena_bytes = arena_.bytes().device,
                   .peer_bytes = arena_.bytes().pools[static_cast<size_t>(Pool::kPeer)]};
  for (const std::shared_ptr<Executable>& executable : executables_.training) {
    if (!IsOf(*training().graph, *executable)) continue;  // a stage of the same
    const std::optional<Executor>& executor = executable->executor;
    const int64_t measured = executor.has_value() ? executor->measured_peak_bytes() : 0;
    use.predicted_peak_bytes =
        std::max(use.predicted_peak_bytes, executable->planned.plan.peak_bytes);
    use.measured_peak_bytes = std::max(use.measured_peak_bytes, measured);
  }
  return use;
}

absl::Status SessionMemory::Replace(Executables next) { return Replace(std::move(next), {}); }

absl::Status SessionMemory::Replace(Executables next, const ArenaBytes& bytes) {
  const bool is_first = executables_.training.empty();
  const ArenaBytes before = arena_.bytes();
  if (!is_first) {
    // Persistent tensors return to the bytes of the arena from which they were taken.
    const Plan& plan = training().planned.plan;
    for (const std::shared_ptr<Executable>& executable : next.training)
      RETURN_IF_ERROR(CheckSamePlaces(plan, executable->planned.plan));
    RETURN_IF_ERROR(arena_.Evacuate(PersistentEnd(plan)));
    for (const std::shared_ptr<Executable>& old : AllOf(executables_)) old->executor.reset();
  }
  const absl::Status refused = ReserveAndBind(next, bytes);
  if (!is_first) {
    if (!refused.ok()) RETURN_IF_ERROR(ReserveAndBind(executables_, before));
    RETURN_IF_ERROR(arena_.Return());
  }
  if (refused.ok()) executables_ = std::move(next);
  return refused;
}

absl::Status SessionMemory::Add(std::shared_ptr<Executable> next) {
  if (!arena_.bytes().Hold(BytesFor(next->planned.plan)))
    return Replace(WithFirst(next, executables_, 1), arena_.bytes());
  RETURN_IF_ERROR(CheckSamePlaces(training().planned.plan, next->planned.plan));
  absl::Status bound = Bind(*next);
  if (absl::IsResourceExhausted(bound) && executables_.training.size() > Kept().training.size()) {
    RETURN_IF_ERROR(device_.Synchronize());
    executables_ = Kept();
    bound = Bind(*next);
  }
  RETURN_IF_ERROR(bound);
  RETURN_IF_ERROR(next->executor->TakeOver());
  Executables all = WithFirst(next, executables_, kMaxTraining);
  // Those that are dropped may still be running.
  if (all.training.size() <= executables_.training.size()) RETURN_IF_ERROR(device_.Synchronize());
  executables_ = std::move(all);
  return absl::OkStatus();
}

const Executable* SessionMemory::Find(const Graph& graph, int64_t stage) const {
  const auto first = [&](const auto& is_of_graph) -> const Executable* {
    for (const std::shared_ptr<Executable>& one : executables_.training) {
      if (one->stage == stage && is_of_graph(*one->graph)) return one.get();
    }
    return nullptr;
  };
  const Executable* const same = first([&](const Graph& known) { return &known == &graph; });
  return same != nullptr ? same : first([&](const Graph& known) { return known == graph; });
}

absl::Status SessionMemory::Resume(const Executable& executable) {
  auto& training = executables_.training;
  const auto known = std::find_if(training.begin(), training.end(),
                                  [&](const auto& one) { return one.get() == &executable; });
  if (known == training.begin()) return absl::OkStatus();
  std::rotate(training.begin(), known, known + 1);
  ++stats_.resumed;
  return training.front()->executor->TakeOver();
}

absl::Status SessionMemory::Check() const {
  const std::vector<std::shared_ptr<Executable>> all = AllOf(executables_);
  const bool bound = std::all_of(all.begin(), all.end(), [](const auto& executable) {
    return executable->executor.has_value();
  });
  if (bound && !arena_.is_evacuated()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the device has refused memory or a copy; the parameters are kept until SetBudget() finds "
      "room");
}

// Executors are destroyed before the arena is replaced: what they hold of the device's memory could
// be what a new one lacks.
absl::Status SessionMemory::ReserveAndBind(const Executables& executables, ArenaBytes bytes) {
  const std::vector<std::shared_ptr<Executable>> all = AllOf(executables);
  for (const std::shared_ptr<Executable>& executable : all)
    bytes = Larger(bytes, BytesFor(executable->planned.plan));
  absl::Status status = arena_.Reserve(bytes);
  for (const std::shared_ptr<Executable>& executable : all) {
    if (status.ok()) status = Bind(*executable);
  }
  if (status.ok()) return status;
  for (const std::shared_ptr<Executable>& executable : all) executable->executor.reset();
  return status;
}

absl::Status SessionMemory::Bind(Executable& executable) {
  ++stats_.made;
  Communicator* const group = executable.program.options.share.ranks > 1 ? communicator_ : nullptr;
  PlanMemory memory = arena_.memory();
  memory.external = external_;
  return executable.Bind(device_, memory, group, records_);
}

}  // namespace neap
