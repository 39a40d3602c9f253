// What a session plans with: verified plans for training and evaluation, from a cache where they
// have been wanted before. Private to the session.
//
//   SessionPlanner planner(device);
//   ASSIGN_OR_RETURN(SessionPlans plans, planner.PlanBoth(training, inference, options));
//
// *Errors*: those of MakePlan() and Verify().
#pragma once

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/program/program.h"
#include "neap/core/run/plan_cache.h"
#include "neap/memory/planner.h"

namespace neap {

struct SessionPlans {
  PlanResult training, inference;
};

class SessionPlanner {
 public:
  explicit SessionPlanner(Device& device) : device_(device) {}

  // On the CPU always strict.
  absl::StatusOr<PlanResult> Plan(const Program& program, const PlannerOptions& options);
  // The budget must suit both, so the one that needs more speaks for them.
  absl::StatusOr<SessionPlans> PlanBoth(const Program& training, const Program& inference,
                                        const PlannerOptions& options);

  // An engine turned out not to build: no plan that is kept can be trusted.
  void Forget() { cache_.Clear(); }
  const PlanCacheStats& cache_stats() const { return cache_.stats(); }

 private:
  static constexpr size_t kPlansKept = 64;

  Device& device_;
  PlanCache cache_{kPlansKept};
};

}  // namespace neap
