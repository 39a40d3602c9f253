#include "neap/memory/drafter.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "neap/core/cost_model.h"
#include "neap/core/status_macros.h"
#include "neap/core/units.h"
#include "neap/memory/stream_order.h"

namespace neap {
namespace {

// How often residency is decided anew with fewer bytes, where placement leaves gaps.
constexpr int kMostAttempts = 6;
constexpr int64_t kMostComparisons = 4'000'000;  // in each

std::vector<Recomputation> Recomputations(const Policy& policy) {
  if (!policy.needs_based() || policy.recomputation == Recomputation::kNone)
    return {policy.recomputation};
  return {Recomputation::kNone, policy.recomputation};
}

bool Moves(const Draft& draft) {
  return std::any_of(draft.residency.stays.begin(), draft.residency.stays.end(),
                     [](const Stay& stay) { return stay.offload_after.has_value(); });
}

}  // namespace

absl::StatusOr<Drafter> Drafter::Create(const Program& program, const Policy& policy,
                                        const PlannerOptions& options,
                                        const DeviceDescription& device, EngineCatalog& catalog) {
  Drafter drafter(program, policy, options, device);
  if (options.offload_params) drafter.travels_ = Travellers(program);
  const auto start = std::chrono::steady_clock::now();
  ASSIGN_OR_RETURN(drafter.engines_, EngineTable::List(program, options.strict, catalog));
  std::vector<RunOrder> run_orders;
  for (Recomputation recomputation : Recomputations(policy)) {
    run_orders.push_back(OrderRuns(program, recomputation));
    RETURN_IF_ERROR(drafter.engines_.AddReruns(program, run_orders.back().runs, catalog));
  }
  const std::chrono::duration<double, std::milli> elapsed =
      std::chrono::steady_clock::now() - start;
  drafter.engines_ms_ = elapsed.count();
  for (RunOrder& run_order : run_orders)
    drafter.orders_.push_back(drafter.MakeOrder(std::move(run_order)));
  return drafter;
}

bool Drafter::in_place() const {
  return options_->in_place && program_->options.accounting == Accounting::kExact;
}

Drafter::Order Drafter::MakeOrder(RunOrder run_order) const {
  Order order;
  order.eager = EagerTensors(*program_, policy_.eager, run_order.checkpoints);
  order.times.bytes_per_second = std::min(costs_.d2h_bytes_per_second, costs_.h2d_bytes_per_second);
  for (const Run& run : run_order.runs) {
    order.workspaces.push_back(RoundUp(engines_.SmallestWorkspace(run), kBlockBytes));
    order.times.run_seconds.push_back(
        (run.recompute ? costs_.rerun_seconds : costs_.step_seconds)[run.step.index()]);
  }
  order.runs = std::move(run_order.runs);
  if (policy_.needs_based()) return order;  // with a limit of nothing, all that can leaves
  order.smallest_limit = {kUnlimited, kUnlimited};
  if (policy_.to_layerwise_bound)
    order.smallest_limit.activation_bytes = BoundLayerwise(*program_, in_place()).bytes;
  return order;
}

absl::StatusOr<Draft> Drafter::Smallest() const {
  ASSIGN_OR_RETURN(Draft best, SmallestOf(orders_.front()));
  for (size_t i = 1; i < orders_.size(); ++i) {
    ASSIGN_OR_RETURN(Draft draft, SmallestOf(orders_[i]));
    if (draft.arena_bytes < best.arena_bytes) best = std::move(draft);
  }
  return best;
}

absl::StatusOr<Draft> Drafter::Best(const Draft& smallest) const {
  if (options_->budget_bytes == kUnlimited && !policy_.needs_based()) return smallest;
  std::optional<Draft> best;
  double best_us = 0;
  for (const Order& order : orders_) {
    ASSIGN_OR_RETURN(std::optional<Draft> draft, WithinBudget(order));
    if (!draft.has_value()) continue;
    if (!Moves(*draft)) return *std::move(draft);  // rebuilding would only take longer
    ASSIGN_OR_RETURN(const double us, PredictedUs(*draft));
    if (!best.has_value() || us < best_us) {
      best = std::move(draft);
      best_us = us;
    }
  }
  return best.has_value() ? *std::move(best) : smallest;
}

absl::StatusOr<Draft> Drafter::SmallestOf(const Order& order) const {
  return Place(order, Decide(order, order.smallest_limit), {});
}

Residency Drafter::Decide(const Order& order, const Usage& limit) const {
  Residency residency = DecideResidency(
      *program_, order.runs, order.workspaces,
      {.in_place = in_place(),
       .keep_all = policy_.keep_all,
       .eager = order.eager,
       .travels = travels_,
       .may_leave = policy_.may_leave,
       .eviction =
           policy_.may_leave == MayLeave::kOnlyCopied ? EvictionRule::kBelady : options_->eviction,
       .limit = limit});
  if (policy_.eager != Eager::kNone)
    FetchOneConvolutionAhead(*program_, order.runs, limit, residency);
  return residency;
}

absl::StatusOr<Draft> Drafter::Place(const Order& order, Residency residency,
                                     const PlacementGoal& goal) const {
  return PlaceDraft(*program_, order.runs, std::move(residency), engines_, options_->placement,
                    goal);
}

absl::StatusOr<std::optional<Draft>> Drafter::WithinBudget(const Order& order) const {
  const int64_t budget_bytes = options_->budget_bytes;
  Usage limit = {kUnlimited, kUnlimited};
  PlacementGoal goal = {.most_comparisons = kMostComparisons};
  if (budget_bytes != kUnlimited)
    limit.bytes = goal.target_bytes = budget_bytes - PersistentBytes(*program_, travels_);
  for (int attempt = 0; attempt < kMostAttempts && limit.bytes > 0; ++attempt) {
    Residency residency = Decide(order, policy_.needs_based() ? limit : order.smallest_limit);
    if (budget_bytes != kUnlimited) OverlapTransfers(*program_, order.times, limit, residency);
    ASSIGN_OR_RETURN(Draft draft, Place(order, std::move(residency), goal));
    if (draft.arena_bytes <= budget_bytes) return draft;
    limit.bytes -= draft.arena_bytes - budget_bytes;
  }
  ASSIGN_OR_RETURN(Draft draft, SmallestOf(order));
  if (draft.arena_bytes > budget_bytes) return std::nullopt;
  return draft;
}

absl::StatusOr<double> Drafter::PredictedUs(const Draft& draft) const {
  ASSIGN_OR_RETURN(WalkResult walk,
                   WalkDraft(*program_, draft, engines_, options_->placement,
                             options_->budget_bytes, WorkspaceChoice::kFirstThatFits));
  Plan plan = DescribeProgram(*program_, travels_, *device_);
  plan.actions = std::move(walk.actions);
  plan.actions = WithWaits(plan);
  return PredictTimeline(plan, costs_).total_us;
}

}  // namespace neap
