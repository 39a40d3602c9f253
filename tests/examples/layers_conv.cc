// The examples in the headers of layers/conv, compiled and not run.
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/cost_features.h"
#include "neap/core/program/program.h"
#include "neap/core/step/divided_kernel.h"
#include "neap/core/step/signature_text.h"
#include "neap/core/step/step_signature.h"
#include "neap/layers/conv/configuration.h"
#include "neap/layers/conv/engine_losses.h"
#include "neap/layers/conv/estimated_parts.h"
#include "neap/layers/conv/knapsack.h"
#include "neap/layers/conv/measured_parts.h"
#include "neap/layers/conv/micro_batching.h"
#include "neap/layers/conv/plan_convolution.h"
#include "neap/layers/conv/workspace_division.h"
#include "neap/layers/convolution.h"

namespace neap::examples {

// layers/conv/configuration.h
void MakeConfiguration() {
  const Configuration divided = {.parts = {{"winograd", 86}, {"winograd", 85}, {"winograd", 85}},
                                 .workspace_bytes = 8 * kMiB,
                                 .seconds = 0.0021};
}

// layers/conv/engine_losses.h
absl::Status OrderEngines(const StepSignature& signature, const Step& step,
                          const DeviceDescription& device, EngineCatalog& catalog) {
  ASSIGN_OR_RETURN(const std::vector<Engine> engines, catalog.Engines(signature));
  const CostFeatures features = FeaturesOf(signature, step.flops, device);
  const std::vector<double> slower = SlowdownsOf(engines, features.group);
  const double first = slower.front();  // 1 in usual lists
  return absl::OkStatus();
}

// layers/conv/estimated_parts.h
absl::Status EstimateParts(const StepSignature& signature, const Step& step, const Device& device,
                           const std::vector<Engine>& engines, const KernelTimings& timings,
                           EngineCatalog& catalog) {
  const EstimateOptions options = {
      .timings = &timings, .device = device.description(), .flops = step.flops};
  ASSIGN_OR_RETURN(std::vector<TimedEngine> known,
                   EstimatedPartsOf(signature, engines, options, catalog));
  FastestDivision(known, BatchOf(signature), BatchGranularity(signature), 64 * kMiB);
  return absl::OkStatus();
}

// layers/conv/knapsack.h
void SolveKnapsack() {
  const std::vector<ChoiceItem> items = {{0, 0.5}, {8, 0}};
  const ChoiceSolution solution = Solve({.classes = {{.members = 2, .items = items}},
                                         .capacity_bytes = 10,
                                         .slack_cost = 0.1,
                                         .start = {{2, 0}},
                                         .start_cost = 2});
  // counts {{1, 1}}: two items of 8 bytes do not fit; cost 0.5 and 2 unused bytes
}

// layers/conv/measured_parts.h
void DivideMeasuredParts(const StepSignature& step, const std::vector<Engine>& engines,
                         const KernelTimings& timings) {
  std::vector<TimedEngine> known =
      MeasuredPartsOf(step, engines, DivisionPolicy::kAll, /*deterministic=*/true, timings);
  FastestDivision(known, BatchOf(step), BatchGranularity(step), 64 * kMiB);
}

// layers/conv/micro_batching.h
void DivideOneConvolution(absl::FunctionRef<double(int64_t size)> seconds_for) {
  std::vector<TimedEngine> engines;
  for (int64_t size : MicroBatchSizes(DivisionPolicy::kPowerOfTwo, 256, 1))
    engines.push_back({.engine = "winograd", .batch = size, .seconds = seconds_for(size)});
  std::optional<Configuration> now = FastestDivision(engines, 256, 1, 64 * kMiB);
  std::vector<Configuration> front = DesirableConfigurations(engines, 256, 1, 512 * kMiB);
  const Configuration* same = FastestThatFits(front, 64 * kMiB);  // as fast as `now`
}

// layers/conv/plan_convolution.h
absl::Status PlanOneConvolution(const TensorSpec& x_spec, const KernelTimings& timings,
                                Device* device, void* x, void* weight, void* bias, void* y,
                                void* workspace) {
  const Layer conv2 = Convolution{.out_channels = 192, .kernel = 5, .padding = 2};
  ASSIGN_OR_RETURN(StepSignature step, SignatureOf(conv2, Phase::kForward, {x_spec}));
  ASSIGN_OR_RETURN(Configuration plan,
                   PlanConvolution(step, {.workspace_limit_bytes = 64 * kMiB, .timings = &timings},
                                   device->backend()));
  ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel,
                   MakeDividedKernel(device->backend(), step, plan.parts, plan.workspace_bytes));
  void* operands[] = {x, weight, bias, y};  // in the order of step.operands
  RETURN_IF_ERROR(kernel->Run(
      {.operands = operands, .workspace = workspace, .workspace_bytes = plan.workspace_bytes}));
  return absl::OkStatus();
}

// layers/conv/workspace_division.h
absl::Status DivideOneWorkspace() {
  std::vector<std::vector<Configuration>> fronts;  // one of DesirableConfigurations() per kernel
  ASSIGN_OR_RETURN(WorkspaceDivision division, DivideWorkspace(fronts, 120 * kMiB));
  const Configuration& conv2 = fronts[1][division.choice[1]];
  return absl::OkStatus();
}

}  // namespace neap::examples
