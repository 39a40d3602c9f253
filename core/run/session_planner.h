// What a session plans with: verified plans for training and evaluation, from a cache where they
// have been wanted before. Private to the session.
//
//   SessionPlanner planner(PlannerFor(options), device);
//   ASSIGN_OR_RETURN(SessionPlans plans, planner.PlanBoth(training, inference, 12 * kGiB));
//
// Planning is always strict on the CPU, whoever plans, so that training there gives the same bits
// under every plan. *Errors*: those of the planner and Verify().
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/planner.h"
#include "neap/core/program/program.h"
#include "neap/core/run/plan_cache.h"

namespace neap {

struct SessionPlans {
  PlanResult training, inference;
};

class SessionPlanner {
 public:
  SessionPlanner(std::shared_ptr<const Planner> planner, Device& device)
      : planner_(std::move(planner)), device_(device) {}

  absl::StatusOr<PlanResult> Plan(const Program& program, int64_t budget_bytes);
  // The budget must suit both, so the one that needs more speaks for them.
  absl::StatusOr<SessionPlans> PlanBoth(const Program& training, const Program& inference,
                                        int64_t budget_bytes);

  // An engine turned out not to build: no plan that is kept can be trusted.
  void Forget() { cache_.Clear(); }
  const PlanCacheStats& cache_stats() const { return cache_.stats(); }

 private:
  static constexpr size_t kPlansKept = 64;

  PlanRequest RequestFor(int64_t budget_bytes) const;
  absl::StatusOr<int64_t> MinimumBudget(const Program& program) const;

  std::shared_ptr<const Planner> planner_;
  Device& device_;
  PlanCache cache_{kPlansKept};
};

}  // namespace neap
