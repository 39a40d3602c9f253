#include "apps/python/planned.h"

#include <utility>

#include "apps/cli/measured_device.h"
#include "apps/python/python_layer.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/program/passes.h"
#include "neap/core/verifier/verifier.h"
#include "neap/memory/planner.h"
#include "neap/memory/program_choice.h"

namespace neap::python {

absl::StatusOr<apps::PlanTarget> TargetFor(const Graph& net, const apps::PlanningFlags& flags) {
  ASSIGN_OR_RETURN(apps::PlanTarget target,
                   apps::OpenPlanTargetBy(flags.kernels, flags.device, /*peer=*/"",
                                          apps::PrintUnread, PythonKernels()));
  RETURN_IF_ERROR(CheckPythonLayers(net, target.description));
  return target;
}

ProgramOptions LoweringOf(const ProgramChoice& choice, const Optimizer& optimizer,
                          int64_t accumulate) {
  ProgramOptions options = apps::PlanningFlags::Lowering(choice);
  options.optimizer = optimizer;
  options.accumulation.batches = accumulate;
  return options;
}

absl::StatusOr<int64_t> BudgetFor(const Graph& net, const apps::PlanningFlags& flags,
                                  const Optimizer& optimizer, const PlannerOptions& options,
                                  const DeviceDescription& device, EngineCatalog& engines,
                                  int64_t accumulate) {
  if (!flags.budget.percent.has_value()) return flags.BudgetBytes({});
  ASSIGN_OR_RETURN(const Program program,
                   Lower(net, LoweringOf(flags.AskedProgram(), optimizer, accumulate), device));
  ASSIGN_OR_RETURN(const apps::NaturalPeaks peaks,
                   apps::FindNaturalPeaks(program, options, device, engines));
  return flags.BudgetBytes(peaks);
}

absl::StatusOr<Planned> PlanFor(const Graph& net, const PlanningArguments& arguments) {
  ASSIGN_OR_RETURN(const apps::PlanningFlags flags, FlagsOf(arguments));
  ASSIGN_OR_RETURN(const apps::PlanTarget target, TargetFor(net, flags));
  const DeviceDescription& device = target.description;
  PlannerOptions options = flags.Options(device, target.kernels);
  ASSIGN_OR_RETURN(options.budget_bytes,
                   BudgetFor(net, flags, arguments.optimizer, options, device, target.engines()));
  const auto lower = [&](const ProgramChoice& choice) {
    return Lower(net, LoweringOf(choice, arguments.optimizer), device);
  };
  RETURN_IF_ERROR(lower(flags.AskedProgram()).status());
  ASSIGN_OR_RETURN(ChosenProgram chosen, ChooseProgram(lower, options, device, target.engines()));
  ASSIGN_OR_RETURN(const Program program, lower(chosen.choice));
  if (!chosen.plan.has_value()) {
    ASSIGN_OR_RETURN(chosen.plan, MakePlan(program, options, device, target.engines()));
  }
  PlanResult& result = *chosen.plan;
  RETURN_IF_ERROR(Verify(result.plan));
  RETURN_IF_ERROR(MatchesProgram(result.plan, program));
  Timeline timeline = PredictTimeline(result.plan, result.costs);
  return Planned{.plan = std::move(result.plan),
                 .stats = result.stats,
                 .timeline = std::move(timeline),
                 .has_budget = flags.has_budget()};
}

}  // namespace neap::python
