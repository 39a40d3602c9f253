// The examples in the headers of core/plan/, which must compile. See scripts/check_examples.py.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/plan/batch_split.h"
#include "neap/core/plan/collective_cost.h"
#include "neap/core/plan/cost_features.h"
#include "neap/core/plan/cost_model.h"
#include "neap/core/plan/describe_program.h"
#include "neap/core/plan/plan.h"
#include "neap/core/plan/plan_memory.h"
#include "neap/core/plan/planner.h"
#include "neap/core/plan/tensor_history.h"
#include "neap/core/plan/timeline.h"
#include "neap/core/plan/trace.h"
#include "neap/core/verifier/verifier.h"
#include "neap/memory/planner.h"

namespace neap::header_examples::plan {

// core/plan/collective_cost.h
void CostOfSums(DeviceDescription description) {
  const RankLink link = {.bytes_per_second = 50e9, .hop_seconds = 5e-6};
  description = WithCollectives(description, 64, link);
  description.collective_latency_seconds;  // 6e-05
  description = WithMeasuredSums(description, {{4096, 2e-5}, {67108864, 3e-4}});
}

// core/plan/cost_features.h
void ListFeatures(const StepSignature& signature, const Step& step, const Device& device) {
  const CostFeatures features = FeaturesOf(signature, step.flops, device.description());
  features.kind;           // "convolution dense forward 16-bit nhwc"
  features.bound_seconds;  // of the roofline
  const double channels = features.values[CostFeatures::kInputChannels];  // 6, if there are 64
}

// core/plan/cost_model.h
void PredictKernel(const StepSignature& signature, const Step& step, const Device& device) {
  const double seconds = PredictSeconds(signature, step.flops, device.description());
}

// core/plan/describe_program.h
void Describe(const Program& program, const DeviceDescription& device) {
  Plan plan = DescribeProgram(program, device);
  plan.actions.push_back(ComputeAction{.step = program.steps.front().id});
}

// core/plan/plan.h
absl::Status MakeVerifiedPlan(const Program& program, const PlannerOptions& options,
                              const DeviceDescription& description, EngineCatalog& catalog) {
  ASSIGN_OR_RETURN(PlanResult result, MakePlan(program, options, description, catalog));
  RETURN_IF_ERROR(Verify(result.plan));
  std::cout << result.plan.Summary();
  return absl::OkStatus();
}

// core/plan/plan_memory.h
void MeasureMemory(const Plan& plan, int64_t most) {
  for (const StepMemory& memory : MemoryPerStep(plan)) most = std::max(most, memory.live_bytes);
  TotalMovement(plan).offloaded_bytes;
}

// core/plan/planner.h
absl::Status MakePlanWithin(const Program& program, Device& device) {
  std::shared_ptr<const Planner> planner = PlannerFor({.policy = "auto"});
  ASSIGN_OR_RETURN(PlanResult result, planner->Plan(program, {.budget_bytes = 12 * kGiB},
                                                    device.description(), device.backend()));
  result.plan.peak_bytes;             // <= 12 GiB, and what will be measured
  result.stats.minimum_budget_bytes;  // the smallest budget that is not refused
  return absl::OkStatus();
}

// core/plan/tensor_history.h
void ExplainHistories(const Plan& plan, const Timeline& timeline) {
  for (const TensorHistory& history : TensorHistories(plan, timeline)) {
    std::cout << plan.tensors[history.tensor.index()].name << ": " << Explain(plan, history)
              << "\n";
  }  // "conv1: offloaded after relu1 forward, back before conv1 backward_params; ..."
}

// core/plan/timeline.h
void Predict(const PlanResult& result, size_t i) {
  Timeline timeline = PredictTimeline(result.plan, result.costs);  // `result` is a PlanResult
  timeline.total_us;                                               // duration of the iteration
  timeline.actions[i].end_us;                    // when result.plan.actions[i] ends
  timeline.total_us - timeline.busy_us[0];       // how long the compute stream is idle
  FindOverlap(result.plan, timeline).hidden_us;  // how long copies run behind computation
}

// core/plan/trace.h
void Trace(const Plan& plan, const TimelineCosts& costs) {
  std::string json = TimelineTrace(plan, PredictTimeline(plan, costs));
}

// core/plan/batch_split.h
void SplitExample(const std::function<std::vector<double>(const std::vector<int64_t>&)>& predict) {
  BatchSplit search(512, 2);
  while (const std::optional<std::vector<int64_t>> split = search.Next()) {
    search.Add(predict(*split));  // {0.031, 0.048}: seconds by rank
  }
  search.best();  // {300, 212}
}

}  // namespace neap::header_examples::plan
