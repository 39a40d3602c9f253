#include "apps/paper/paper_planning.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/kernel_flags.h"
#include "apps/cli/measured_device.h"
#include "apps/cli/outcome.h"
#include "apps/cli/planning_flags.h"
#include "apps/cli/predicted_speed.h"
#include "apps/paper/paper_gpus.h"
#include "apps/train/trial_run.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/plan/cost_model.h"
#include "neap/core/program/passes.h"
#include "neap/core/verifier/verifier.h"
#include "neap/memory/planner.h"

namespace neap::apps {
namespace {

bool IsCounted(const Tensor& tensor) { return tensor.role != Role::kLabel; }

PlannerOptions Completed(PlannerOptions options, const PlanTarget& target) {
  if (options.host_budget_bytes == kUnlimited)
    options.host_budget_bytes = MostHostMemory(target.description).bytes;
  options.strict = options.strict || target.description.kind == "cpu";
  const int64_t limit_bytes = options.kernels.workspace_limit_bytes;
  options.kernels = target.kernels;
  options.kernels.workspace_limit_bytes = limit_bytes;
  return options;
}

}  // namespace

absl::StatusOr<PlanTarget> OpenPaperTarget(const PaperRun& run, DeviceDescription paper_gpu) {
  if (run.device.empty()) {
    if (!run.database.empty())
      return BadUsage("--database needs --device: nothing was measured on the paper's GPU");
    return PaperTarget(std::move(paper_gpu));
  }
  const KernelFlags kernels = {.database = run.database};
  return OpenPlanTargetBy(kernels, run.device, /*peer=*/"");
}

std::string TargetText(const PlanTarget& target) {
  const std::string& name = target.description.name;
  if (target.kernels.timings != nullptr)
    return absl::StrCat("planned for ", name, ", with measured times where there are any");
  const std::string planned =
      absl::StrCat("planned for ", name, " by the cost model: ", CostModelOf(target.description));
  if (target.unlisted.ok()) return planned;
  return absl::StrCat(planned, ", with one placeholder engine without workspace for each step");
}

StepMemory Planned::Peak() const {
  return ActivationPeak(MemoryPerStep(result.plan)).value_or(StepMemory{});
}

double Planned::images_per_second() const { return PredictedImagesPerSecond(result); }

absl::StatusOr<Planned> PlanNetwork(const Graph& graph, const ProgramOptions& lowering,
                                    PlannerOptions options, const PlanTarget& target) {
  Planned planned;
  ASSIGN_OR_RETURN(planned.program, Lower(graph, lowering, target.description));
  options = Completed(std::move(options), target);
  ASSIGN_OR_RETURN(planned.result,
                   MakePlan(planned.program, options, target.description, target.engines()));
  RETURN_IF_ERROR(Verify(planned.result.plan));
  RETURN_IF_ERROR(MatchesProgram(planned.result.plan, planned.program));
  return planned;
}

absl::StatusOr<std::optional<Planned>> PlanIfItFits(const Graph& graph,
                                                    const ProgramOptions& lowering,
                                                    PlannerOptions options,
                                                    const PlanTarget& target) {
  options.suggest_policy = false;
  absl::StatusOr<Planned> planned = PlanNetwork(graph, lowering, std::move(options), target);
  if (absl::IsResourceExhausted(planned.status())) return std::nullopt;
  RETURN_IF_ERROR(planned.status());
  return *std::move(planned);
}

absl::StatusOr<std::optional<double>> MeasuredSpeed(const Graph& graph, PlannerOptions options,
                                                    const PlanTarget& target, int64_t steps) {
  if (!CanTrain(target)) return std::nullopt;
  if (Interrupted()) return absl::CancelledError("stopped");
  const absl::StatusOr<TrialRun> trial =
      RunTrial(graph, *target.device, Completed(std::move(options), target), steps);
  if (absl::IsResourceExhausted(trial.status())) return std::nullopt;
  RETURN_IF_ERROR(trial.status());
  if (Interrupted()) return absl::CancelledError("stopped");
  return trial->images_per_second;
}

int64_t BytesOfAllTensors(const Program& program) {
  int64_t bytes = 0;
  for (const Tensor& tensor : program.tensors)
    bytes += IsCounted(tensor) ? tensor.spec.size_bytes() : 0;
  return bytes;
}

int CountOfAllTensors(const Program& program) {
  return static_cast<int>(std::count_if(program.tensors.begin(), program.tensors.end(), IsCounted));
}

double InGibibytes(int64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(kGiB); }

}  // namespace neap::apps
