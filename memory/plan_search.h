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
// What is decided under a limit is the policy's (memory/policies/policy.h): it gives the orders of
// runs, and says what is offloaded and what may be evicted. The search only compares. It is hard
// because residency, workspaces and addresses depend on each other: residency is decided before the
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
// *Complexity*: for each limit a residency, a walk over the runs and, where no bound rules it out,
// a placement (memory/placement/placement.h). The number of limits falls with the number of runs.
// *Threads*: candidates are tried side by side, in rounds. All of a round start from the fastest
// candidate of the rounds before, so the plan does not depend on the number of threads.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/cost_model.h"
#include "neap/core/plan/plan.h"
#include "neap/core/plan/timeline.h"
#include "neap/core/program/liveness.h"
#include "neap/core/program/program.h"
#include "neap/memory/candidate.h"
#include "neap/memory/engines/engine_table.h"
#include "neap/memory/planner_options.h"
#include "neap/memory/policies/policy.h"
#include "neap/memory/time_bound.h"
#include "neap/memory/transfer/overlap.h"
#include "neap/recompute/layerwise_bound.h"
#include "neap/recompute/recompute.h"

namespace neap {

inline constexpr double kNoTimeLimit = std::numeric_limits<double>::infinity();

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

  // Makes a search for the minimum one for a plan, too. Errors: those of Create().
  absl::Status AddOrdersForPlan(EngineCatalog& catalog);

  // The candidate with the smallest arena, which is the minimum budget. Its actions are not
  // written.
  Candidate Smallest() const;
  // Of a search of any purpose: a smallest candidate of an order whose arena is at most
  // `budget_bytes`, if there is one. Its placement is no smaller than that requires. Otherwise one
  // with the least lower bound. Errors: those of Create().
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
  // No candidate of any policy takes less time in a budget (memory/time_bound.h). 0 unless the
  // policy prices reruns.
  double TimeBoundUs(int64_t budget_bytes) const;
  // The time of an iteration in which nothing waits, and every step has its fastest engine.
  double fastest_us() const { return orders_.front().fastest_us; }

  const LayerwiseBound& layerwise() const { return layerwise_; }
  double engines_ms() const { return engines_ms_; }

 private:
  // What the candidates with the same order of runs and rule of eviction have in common.
  struct Order {
    bool is_priced = false;  // of Policy::priced_orders
    Policy policy;           // the search's, or another one that it contains
    EvictionRule eviction = EvictionRule::kLru;
    Liveness liveness;
    EngineTable engines;
    std::vector<bool> eager;          // by TensorId; none if empty
    std::vector<int64_t> workspaces;  // by position: the smallest
    std::vector<int64_t> preferred;   // by position: those of the fastest configurations
    TransferTimes times;
    std::vector<double> least_seconds;  // by position: of the fastest engine
    double fastest_us = 0;              // fastest_us() of this order
    // If nothing is moved: the most bytes in use, without persistent tensors; how many of them are
    // there only because tensors take whole blocks; and the time until then, if nothing waits.
    int64_t unmoved_bytes = 0;
    int64_t rounding_bytes = 0;
    double until_peak_us = 0;
    double copies_us = 0;  // CopiesUs() if nothing is moved because of a limit
  };
  // An order of runs, and whose it is.
  struct OwnedOrder {
    RunOrder order;
    Policy policy;
    bool is_priced = false;
  };
  // The fastest candidate that was found. If it is absent, what one has to be faster than.
  struct Fastest {
    double us = std::numeric_limits<double>::infinity();
    std::optional<Candidate> candidate = {};
  };
  // Levels of the ladder of an order, the highest first.
  struct Rungs {
    const Order* order = nullptr;
    double least_us = 0;  // LeastUs() of the order
    std::vector<int64_t> limits = {};
  };
  // Replaces `best` by a faster candidate of a part of a round, if it has one. `scratch` describes
  // the program.
  using TryPart = absl::FunctionRef<absl::Status(size_t part, Plan& scratch, Fastest& best)>;

  PlanSearch(const Program& program, const Policy& policy, const PlannerOptions& options,
             const DeviceDescription& device)
      : program_(&program),
        policy_(policy),
        options_(&options),
        device_(&device),
        transfers_(TransferCosts(device)),
        layerwise_(BoundLayerwise(program, in_place())) {}

  bool may_move() const { return options_->has_room_outside(); }
  void OffloadParams();
  // Those of a policy without prices.
  void AppendOrdersOf(const Policy& policy, std::vector<OwnedOrder>& orders) const;
  absl::Status AddOrders(std::vector<OwnedOrder> run_orders, EngineCatalog& catalog);
  // A priced order evicts what is next used farthest in the future.
  Order MakeOrder(OwnedOrder owned) const;
  // The bytes of a budget above persistent tensors.
  int64_t Capacity(int64_t budget_bytes) const;
  // No candidate of the order takes less time in so many bytes: where most would be in use if
  // nothing were moved, what exceeds them must have left before, and come back after. Infinite if
  // that is more than the host and the peer have room for.
  double LeastUs(const Order& order, int64_t capacity) const;
  // No candidate with this residency takes less time: all its copies take that long.
  double CopiesUs(const Residency& residency) const;
  // The same, by a timeline in which nothing waits for bytes.
  double ApartUs(const Order& order, const Residency& residency, Plan& scratch) const;
  // Adds what copies to the host cost, if tensors may move.
  void PriceCopies(RebuildPrices& prices) const;
  double MostBytesPerSecond() const;  // of any link, in one direction; 0 if that is infinite
  // The orders. Those that are likely to give the fastest candidates come first.
  std::vector<const Order*> LikelyFirst(int64_t capacity) const;
  bool in_place() const;
  // Whether it may pay to evict tensors for larger workspaces.
  bool WorkspacesMayEvict(const Policy& policy) const;
  bool MayGain(const Order& order) const;
  static bool IsShort(const Order& order);

  // The orders among which the smallest candidate is, from the one with this index on.
  std::vector<const Order*> SmallestOrders(size_t first = 0) const;
  // The smallest candidate of the order.
  Candidate SmallestOf(const Order& order, const PlacementGoal& goal) const;
  // Closest() of these orders; absent if there are none.
  std::optional<Candidate> ClosestOf(const std::vector<const Order*>& orders,
                                     int64_t budget_bytes) const;

  // Residency by the policy under a limit, and the same with overlapped transfers.
  Residency Decide(const Order& order, const std::vector<int64_t>& workspaces,
                   const Usage& limit) const;
  Residency DecideOverlapped(const Order& order, const std::vector<int64_t>& workspaces,
                             const Usage& limit) const;

  // The levels of the ladder: limits of usage without persistent tensors, in bytes, the highest
  // first. They are the same for every WorkspaceRule, so that kBest finds whatever the others find.
  std::vector<int64_t> Ladder(const Order& order) const;
  // From `most` bytes down to `least`, the most bytes of each residency.
  std::vector<int64_t> LevelsOfResidencies(const Order& order, int64_t least, int64_t most) const;
  int64_t BytesToKeepAll(const Order& order, const std::vector<int64_t>& workspaces) const;
  // Compares the candidates of all levels that fit the budget with `best`, in rounds.
  absl::Status TryLadders(int64_t budget_bytes, Fastest& best) const;
  // The same for the two ends of the orders without prices, of which no level may be as good:
  // nothing is moved, and everything that can be.
  absl::Status TryEnds(int64_t budget_bytes, Fastest& best) const;
  size_t MostOfRound() const;  // parts
  // Tries the parts side by side. Each is compared with `best` as it was before the round.
  absl::Status TryRound(size_t parts, TryPart try_part, Fastest& best) const;
  // By order, the parts that fit the budget; none if no candidate of the order is faster.
  std::vector<std::vector<Rungs>> RungsOf(absl::Span<const Order* const> orders,
                                          int64_t budget_bytes, double best_us) const;
  // Tries one level after another.
  absl::Status TryRungs(const Rungs& rungs, int64_t budget_bytes, Plan& scratch,
                        Fastest& best) const;
  // Compares a placed candidate with `best`.
  absl::Status Consider(const Order& order, Candidate candidate, int64_t budget_bytes,
                        Plan& scratch, Fastest& best) const;
  // Whether no candidate with this residency takes less than `best_us`. It is asked before
  // placement, which usually takes longer.
  bool IsTooSlow(const Order& order, const Residency& residency, double best_us,
                 Plan& scratch) const;
  // The candidates of a level, placed: one for each choice of workspaces, without those that are
  // too slow.
  std::vector<Candidate> CandidatesAt(const Order& order, int64_t limit_bytes, double best_us,
                                      Plan& scratch) const;
  // The one by the policy's schedule in so many bytes, if it has room and is not too slow.
  std::vector<Candidate> ScheduledAt(const Order& order, int64_t limit_bytes, double best_us,
                                     Plan& scratch) const;
  // The bytes reserved for each run's workspace, by position: one choice for each workspace rule.
  // `least` is the residency with the smallest workspaces.
  std::vector<std::vector<int64_t>> WorkspacesAt(const Order& order, const Residency& least,
                                                 const Usage& limit) const;

  Candidate Place(const Order& order, std::vector<int64_t> workspaces, Residency residency,
                  const PlacementGoal& goal) const;
  // `engines` are those of the candidate's order.
  absl::StatusOr<Candidate> Write(Candidate candidate, const EngineTable& engines,
                                  int64_t budget_bytes) const;
  // With the waits for reused places in the pools, unless it takes longer than `best_us` without
  // them. Infinite if it needs more host memory than there is.
  double PredictedUs(const Candidate& candidate, double best_us, Plan& scratch) const;
  // The time of actions without waits, with the waits that places in the arena need. No two copies
  // share places in a pool, and none slows down a step: a plan with more waits may copy where
  // nothing else runs. Leaves the plan in `scratch`.
  double PoolsApartUs(std::vector<Action> actions, TimelineCosts costs, Plan& scratch) const;

  const Program* program_;
  Policy policy_;
  const PlannerOptions* options_;
  const DeviceDescription* device_;
  TimelineCosts transfers_;  // without compute_seconds, which depend on the engines
  LayerwiseBound layerwise_;
  std::vector<bool> offloaded_params_;  // by TensorId; none if empty
  int64_t offloaded_param_bytes_ = 0;   // of these, whose values the host may already have
  EngineTable engines_;
  double engines_ms_ = 0;
  bool has_orders_for_plan_ = false;
  std::optional<TimePrices> prices_;  // if the policy prices reruns
  std::vector<Order> orders_;
};

}  // namespace neap
