// The plan search: finds the candidate with the smallest arena, and the fastest one in a budget.
//
// The search tries a fixed ladder of memory limits, from the policy's minimum to the point where
// nothing has to move. The ladder does not depend on the budget, and a candidate that fits is left
// out only where a bound on its time says that another one is as fast. So a larger budget only adds
// candidates, and each of them gets engines that its steps prefer at least as much. These may cost
// time: a larger workspace may have to wait for a copy that still uses its bytes, and of engines of
// which only some were measured the preferred one may be predicted to be slower. So a candidate is
// also written with the workspaces that smaller budgets would give it. What remains: a search for
// something faster than another plan (BestBelow) ends when the likely candidates are not.
//
//   limit
//   |====== nothing has to move       for each limit, each order of runs and its eviction rules:
//   |======                             residency under the limit, with overlapped transfers
//   |======  . . . . . . . budget       one candidate for each rule for workspaces
//   |======                             placement, actions, predicted time, unless a bound on
//   |======                             the time says that another candidate is faster
//   |====== minimum, and some below: residency counts bytes, and placement needs room for gaps
//
// The policy decides under a limit (memory/policies/policy.h): it gives the orders of runs, and
// says what is offloaded and what may be evicted. The search only compares. It is hard because
// residency, workspaces and addresses depend on each other: residency is decided before the
// addresses, so whether a candidate fits is known only once it is placed.
//
// Without room outside the arena (PlannerOptions::has_room_outside()) nothing moves: an order of
// runs has one residency, and the ladder one level. What an order needs then differs by what it
// reruns, so the smallest candidate is that of any order, those with priced reruns included.
//
//   ASSIGN_OR_RETURN(const PlanSearch search,
//                    PlanSearch::Create(program, policy, options, device, catalog));
//   const Candidate smallest = search.Smallest();
//   smallest.arena_bytes;                                           // the minimum budget
//   ASSIGN_OR_RETURN(const Candidate best, search.Best(smallest, 12 * kGiB));
//   best.written.actions;                                           // within 12 GiB
//
// The search's parts are in memory/search/plan_search_parts.h.
//
// *Complexity*: for each limit a residency, a walk over the runs and, where no bound rules it out,
// a placement (memory/placement/placement.h). The number of limits falls with the number of runs.
// *Threads*: candidates are tried side by side, in rounds (memory/search/search_rounds.h). The plan
// does not depend on the number of threads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/program/program.h"
#include "neap/core/step/kernel.h"
#include "neap/memory/planner_options.h"
#include "neap/memory/policies/policy.h"
#include "neap/memory/search/candidate.h"
#include "neap/recompute/layerwise_bound.h"

namespace neap {

struct PlanSearchParts;  // memory/search/plan_search_parts.h

// A search for the minimum does not need the orders of the policies that the policy contains. If
// tensors may move, it does not need those of Policy::priced_orders either. Closest() prices orders
// only where those without prices do not fit.
enum class SearchPurpose : uint8_t { kPlan, kMinimum, kFit };

class PlanSearch {
 public:
  // Lists the engines. *Ownership*: keeps references to program, options and device. If no tensor
  // may move, the policy must not be one that always moves some.
  static absl::StatusOr<PlanSearch> Create(const Program& program, const Policy& policy,
                                           const PlannerOptions& options,
                                           const DeviceDescription& device, EngineCatalog& catalog,
                                           SearchPurpose purpose = SearchPurpose::kPlan);
  PlanSearch(PlanSearch&&) noexcept;
  PlanSearch& operator=(PlanSearch&&) noexcept;
  ~PlanSearch();

  // Makes a search for the minimum one for a plan, too. Errors: those of Create().
  absl::Status AddOrdersForPlan(EngineCatalog& catalog);

  // The candidate with the smallest arena, which is the minimum budget. Its actions are not
  // written.
  Candidate Smallest() const;
  // A smallest candidate of an order whose arena is at most `budget_bytes`, if there is one. Its
  // placement is no smaller than that requires. Otherwise one with the least lower bound. The
  // search may have any purpose. Errors: those of Create().
  absl::StatusOr<Candidate> Closest(int64_t budget_bytes, EngineCatalog& catalog);
  // The fastest candidate in a budget, with its actions. `smallest` must fit the budget. The
  // options' budget does not count.
  absl::StatusOr<Candidate> Best(const Candidate& smallest, int64_t budget_bytes) const;
  // The same one if it takes less than `limit_us`. Otherwise, or if the likely candidates take
  // longer, maybe none, which takes less planning.
  absl::StatusOr<std::optional<Candidate>> BestBelow(double limit_us, const Candidate& smallest,
                                                     int64_t budget_bytes) const;
  // A candidate of Smallest() or Closest() with its actions. It must fit the budget.
  absl::StatusOr<Candidate> Write(Candidate candidate, int64_t budget_bytes) const;
  // No candidate of any policy takes less time in a budget (memory/search/time_bound.h). 0 unless
  // the policy prices reruns.
  double TimeBoundUs(int64_t budget_bytes) const;
  // The time of an iteration in which nothing waits, and every step has its fastest engine.
  double fastest_us() const;

  const LayerwiseBound& layerwise() const;
  double engines_ms() const;

 private:
  explicit PlanSearch(std::unique_ptr<PlanSearchParts> parts);

  // Closest() of the orders from the one with this index on; absent if there are none.
  std::optional<Candidate> ClosestFrom(size_t first, int64_t budget_bytes) const;

  std::unique_ptr<PlanSearchParts> parts_;
};

}  // namespace neap
