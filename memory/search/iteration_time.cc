#include "neap/memory/search/iteration_time.h"

#include <utility>

#include "neap/core/plan/cost_model.h"
#include "neap/memory/transfer/pool_choice.h"
#include "neap/memory/transfer/pools.h"
#include "neap/memory/transfer/waits.h"

namespace neap {
namespace {

// The time of `plan`, whose actions have no waits, with the waits that its places need.
double UsWithWaits(const TimelineCosts& costs, Plan& plan) {
  std::vector<Action> actions = WithWaits(plan);
  std::swap(plan.actions, actions);
  const double us = PredictTimeline(plan, costs).total_us;
  std::swap(plan.actions, actions);
  return us;
}

}  // namespace

IterationTime::IterationTime(const PlannerOptions& options, const DeviceDescription& device)
    : options_(&options), transfers_(TransferCosts(device)) {}

double IterationTime::PredictedUs(const Candidate& candidate, double best_us, Plan& scratch) const {
  const double least_us =
      LeastUs(candidate.written.actions, candidate.written.compute_seconds, scratch);
  if (least_us >= best_us || !Copies(candidate)) return least_us;
  if (Moves(candidate)) {
    LayOutPools(scratch);
    if (scratch.host_pool_bytes > options_->host_budget_bytes) return kNoTimeLimit;
  }
  TimelineCosts costs = transfers_;
  costs.compute_seconds = candidate.written.compute_seconds;
  return UsWithWaits(costs, scratch);
}

double IterationTime::LeastUs(std::vector<Action> actions, std::vector<double> compute_seconds,
                              Plan& scratch) const {
  TimelineCosts costs = transfers_;
  costs.compute_seconds = std::move(compute_seconds);
  costs.slowdown_by_offloads = costs.slowdown_by_prefetches = 0;
  costs.slowdown_by_sums = costs.collective_interference_seconds = 0;
  scratch.actions = std::move(actions);
  ChoosePools(options_->peer_budget_bytes, scratch);
  LayOutApart(scratch);
  return UsWithWaits(costs, scratch);
}

}  // namespace neap
