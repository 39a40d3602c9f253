#include "tests/memory/finished_plan.h"

#include <algorithm>

#include "neap/core/plan/cost_model.h"
#include "neap/core/plan/describe_program.h"
#include "neap/core/plan/plan_memory.h"
#include "neap/core/plan/timeline.h"
#include "neap/memory/transfer/pools.h"
#include "neap/memory/transfer/waits.h"

namespace neap::testing {

Plan FinishedPlan(const Program& program, const DeviceDescription& device,
                  const Candidate& candidate, int64_t budget_bytes) {
  Plan plan = DescribeProgram(program, device);
  plan.budget_bytes = budget_bytes;
  plan.arena_bytes = plan.peak_bytes = candidate.written.peak_bytes;
  plan.actions = candidate.written.actions;
  LayOutPools(plan);
  plan.actions = WithWaits(plan);
  TimelineCosts costs = TransferCosts(device);
  costs.compute_seconds = candidate.written.compute_seconds;
  plan.predicted_ms = PredictTimeline(plan, costs).total_us / 1e3;
  return plan;
}

void FillTotals(Plan& plan) {
  for (const StepMemory& memory : MemoryPerStep(plan))
    plan.peak_activation_bytes = std::max(plan.peak_activation_bytes, memory.live_activation_bytes);
  plan.host_peak_bytes = PoolPeakBytes(plan)[static_cast<size_t>(Pool::kHost)];
}

}  // namespace neap::testing
