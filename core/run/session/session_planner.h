// Verified plans for the training and evaluation of a session, cached for when they are needed
// again. Private to the session.
//
//   SessionPlanner planner(PlannerFor(options), device);
//   ASSIGN_OR_RETURN(SessionPlans plans, planner.PlanAll({{training}, inference}, 12 * kGiB));
//
// On the CPU every plan is requested as strict (core/plan/planner.h), so training there gives the
// same bits under every budget. A plan from a file keeps its engines, whatever is requested.
// *Threads*: any number at a time. They share the planner, which is immutable, the engine lists of
// the device's backend (core/step/kernel.h) and the cache, which are safe for several threads, and
// use no other part of the device. A plan that was begun before Forget() is not cached.
// *Errors*: those of the planner, Verify() and MatchesProgram().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/planner.h"
#include "neap/core/program/program.h"
#include "neap/core/run/plan_cache.h"

namespace neap {

// Without an inference program, the session does not evaluate.
struct SessionPrograms {
  std::vector<Program> training;  // of one network: at least one
  std::optional<Program> inference;
};
// One for each of the programs, in the same order.
struct SessionPlans {
  std::vector<PlanResult> training;
  std::optional<PlanResult> inference;
};

class SessionPlanner {
 public:
  SessionPlanner(std::shared_ptr<const Planner> planner, Device& device);

  absl::StatusOr<ChosenProgram> Choose(LowerWith lower, int64_t budget_bytes) const;
  // Plan() of this program and budget will return `planned`, a result of Choose().
  absl::Status Keep(const Program& program, int64_t budget_bytes, PlanResult planned);
  absl::StatusOr<PlanResult> Plan(const Program& program, int64_t budget_bytes);
  // All plans must fit the budget, and agree in the places of persistent tensors. The smallest
  // budget in the statistics of plans for training suffices for all programs. An error for a budget
  // that is too small for several is that of the program that needs most.
  absl::StatusOr<SessionPlans> PlanAll(const SessionPrograms& programs, int64_t budget_bytes);

  // To be called when an engine turned out not to build: any cached plan may use it.
  void Forget() { cache_.Clear(); }
  PlanCacheStats cache_stats() const { return cache_.stats(); }

 private:
  static constexpr size_t kPlansKept = 64;

  // The cached plan. Otherwise that which `make` makes, verified.
  absl::StatusOr<PlanResult> FindOrMake(const Program& program, int64_t budget_bytes,
                                        PlanCache::Make make);
  absl::Status MostDemanding(const std::vector<const Program*>& programs,
                             const std::vector<absl::StatusOr<PlanResult>>& results) const;
  PlanRequest RequestFor(int64_t budget_bytes) const;
  absl::StatusOr<int64_t> MinimumBudget(const Program& program) const;

  const std::shared_ptr<const Planner> planner_;
  const DeviceDescription device_;
  EngineCatalog& catalog_;
  PlanCache cache_{kPlansKept};
};

// Whether all persistent tensors that both plans have, by name, are at the same place when an
// iteration begins: what one plan leaves there, the other finds. Errors: INVALID_ARGUMENT naming
// the first tensor that is not.
absl::Status CheckSamePlaces(const Plan& plan, const Plan& other);

// The end of the last persistent tensor in the arena, in whole blocks.
int64_t PersistentEnd(const Plan& plan);

}  // namespace neap
