// The executables of a session as they are planned and made: for its network, for the sizes in
// which it is trained (Graph::Sizes()), for other graphs and other budgets. Private to the session.
//
//   SessionExecutables executables(device, planner, options);
//   RETURN_IF_ERROR(executables.Create(graph, share));  // of the family, and for evaluation
//   RETURN_IF_ERROR(executables.training().executor->Run());
//   RETURN_IF_ERROR(executables.SetTrainingGraph(part, /*ready=*/absl::OkStatus(), terms, gather));
//   RETURN_IF_ERROR(executables.SetBudget(6 * kGiB));
//
// An engine that turns out not to build is no longer listed then, so plans are made again without
// it, as often as that happens.
//
// *Ownership*: borrows the device and what the options refer to. *Errors*: those of the planner and
// of SessionMemory; after one, the executables are as before.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/graph/graph.h"
#include "neap/core/plan/planner.h"
#include "neap/core/program/feeds.h"
#include "neap/core/program/program.h"
#include "neap/core/run/ranks.h"
#include "neap/core/run/session.h"
#include "neap/core/run/session/budget_change.h"
#include "neap/core/run/session/session_memory.h"
#include "neap/core/run/session/session_planner.h"

namespace neap {

class SessionExecutables {
 public:
  SessionExecutables(Device& device, std::shared_ptr<const Planner> planner,
                     const TrainingOptions& options);

  // To be called by all ranks. Errors also: those of Lower() and WithSize().
  absl::Status Create(const Graph& graph, const RankShare& share);

  // The training program of the graph given to Create(); and the program with the session's
  // persistent tensors, whole even if the optimizer is sharded.
  const Program& whole() const { return whole_; }
  const Program& stored() const { return stored_; }
  // Those of Graph::Sizes(), with the batch of each.
  const std::vector<GraphSize>& sizes() const { return sizes_; }

  // Those for training, of the whole family.
  std::vector<const Program*> Programs() const;
  // Of a session whose gradients are summed, that of the iteration which is next.
  Executable& training() { return memory_.training(); }
  const Executable& training() const { return memory_.training(); }
  // The same, but that of the first batch if gradients are summed.
  const Executable& first_stage() const { return *memory_.Find(*training().graph, /*stage=*/0); }
  // Whether all iterations of a step are replayed, or the first error.
  absl::Status recording() const;
  Executable& inference() { return memory_.inference(); }
  const Executable& inference() const { return memory_.inference(); }
  const SessionMemory& memory() const { return memory_; }
  PlanCacheStats plan_cache() const { return planner_.cache_stats(); }

  // Session::SetTrainingGraph(), to be called by all ranks. A rank whose `ready` is an error has
  // all of them fail. `terms` says what ranks must agree on, and `gather` brings parameters up to
  // date before the graph changes.
  absl::Status SetTrainingGraph(const Graph& graph, const absl::Status& ready,
                                absl::FunctionRef<Terms(const Program&)> terms,
                                absl::FunctionRef<absl::Status()> gather);

  // The executable of the next step with values of these shapes: one of the family, and without
  // shapes that of the network's own size. A graph that SetTrainingGraph() has set has no sizes.
  // Errors: INVALID_ARGUMENT if there is none of that size.
  absl::StatusOr<const Executable*> Sized(const Feeds& feeds) const;
  // Trains it from the next step on. Steps may be in flight.
  absl::Status Resume(const Executable& executable) { return memory_.Resume(executable); }
  // Of a session whose gradients are summed: the iteration of the batch of this index, or that of
  // the update, comes next.
  absl::Status SetStage(int64_t index);

  // The functions of the same names of Session. SetTrainingGraph() must not be called while a
  // change of the budget is pending.
  absl::Status SetBudget(int64_t budget_bytes);
  absl::Status SetBudgetAsync(int64_t budget_bytes);
  bool budget_pending() const { return change_.is_pending(); }
  absl::Status AwaitBudget();
  // Switches to another budget if its plans are ready.
  void TakeBudgetIfReady();

 private:
  absl::StatusOr<std::vector<std::shared_ptr<Executable>>> Stages(
      const std::shared_ptr<const Graph>& graph);
  // `graph` and its program in each of its sizes.
  absl::Status AddSizes(const Graph& graph, Executables& executables);
  absl::StatusOr<std::shared_ptr<Executable>> PlanPart(const Graph& graph);
  absl::StatusOr<bool> ResumeGraph(const Graph& graph, const absl::Status& ready,
                                   absl::FunctionRef<Terms(const Program&)> terms,
                                   absl::FunctionRef<absl::Status()> gather);
  // Calls `make` until it does not return ABORTED.
  absl::Status UntilBuilt(absl::FunctionRef<absl::Status()> make);
  // Plans for the budget, for the same programs.
  absl::Status Replace(Executables executables, SessionPlans plans);
  void TakeBudget(BudgetChange::Planned planned);

  Device& device_;
  const TrainingOptions& options_;
  int64_t budget_bytes_;
  SessionPlanner planner_;
  Program whole_, stored_;
  std::vector<std::shared_ptr<const Graph>> family_;  // the network, and its sizes
  std::vector<GraphSize> sizes_;
  std::vector<int64_t> stages_;  // by Accumulation::index: that of the executable
  SessionMemory memory_;
  BudgetChange change_;          // of SetBudgetAsync()
  Executables changed_;          // those for whose programs it plans
  absl::Status budget_outcome_;  // of the last change that is no longer pending
};

}  // namespace neap
