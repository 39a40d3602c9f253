// The examples of the headers under apps/bench/, compiled but not run.
#include "absl/status/status.h"
#include "apps/bench/conv_chart.h"
#include "apps/bench/conv_comparison.h"
#include "apps/bench/conv_measure.h"
#include "apps/bench/conv_set.h"
#include "apps/bench/per_tensor_run.h"
#include "apps/bench/pool_comparison.h"
#include "apps/bench/workspace_comparison.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/output.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/program/program.h"

namespace neap::apps {

absl::Status ConvChartExample(const ConvBenchReport& report) {
  RETURN_IF_ERROR(WriteTextFile("speedups.svg", SpeedupChart(report)));
  return absl::OkStatus();
}

absl::Status ConvComparisonExample(const std::vector<ConvKernel>& kernels,
                                   const KernelTimings& timings, EngineCatalog& catalog,
                                   const ConvBench::Execute& execute) {
  ProgressLine line("execute", "kernels");
  ConvBench bench({.limits_bytes = {8 * kMiB, 64 * kMiB}}, timings, catalog, line, execute);
  ASSIGN_OR_RETURN(const ConvBenchResult result, bench.Run(kernels));
  return absl::OkStatus();
}

absl::Status ConvSetExample(const Program& program) {
  const std::vector<ConvKernel> kernels = ConvolutionsOf(program);
  ASSIGN_OR_RETURN(const std::vector<ConvKernel> listed, DeepBenchConvolutions({.batch = 64}));
  return absl::OkStatus();
}

absl::Status WorkspaceComparisonExample(const NetFlags& net, const PlanTarget& target,
                                        const TrainByPlan& train) {
  WorkspaceBench bench({.budgets_bytes = {3 * kGiB}, .batches = {100, 200}}, net, target, train);
  const auto go_on = [](const WorkspaceRun& /*next*/) { return !Interrupted(); };
  ASSIGN_OR_RETURN(const std::vector<WorkspaceRun> runs, bench.Run(go_on));
  return absl::OkStatus();
}

absl::Status ConvMeasureExample() {
  ConvBenchRequest request = {.net = {.name = "alexnet"}, .plan_only = true};
  request.measuring.database = "h200.db";
  ASSIGN_OR_RETURN(const ConvBenchReport report, RunConvBench(request));
  return absl::OkStatus();
}

absl::Status PoolComparisonExample(const Graph& graph, Device* device) {
  ASSIGN_OR_RETURN(const PoolComparison comparison,
                   ComparePool(graph, *device, {.policy = "liveness"}, /*steps=*/20));
  comparison.speedup();
  return absl::OkStatus();
}

absl::Status PerTensorRunExample(const Program& program, const Plan& plan, Device& device,
                                 const Buffer& start,
                                 const std::vector<Executor::HostValue>& batch) {
  ASSIGN_OR_RETURN(PerTensorRun run, PerTensorRun::Create(program, plan, device));
  RETURN_IF_ERROR(run.SetPersistent(start));  // their bytes, as the plan places them
  RETURN_IF_ERROR(run.Iterate(batch));        // enqueues an iteration
  run.allocations();                          // of one iteration
  return absl::OkStatus();
}

}  // namespace neap::apps
