// Shared code of the items of `neap paper`: the device to plan for, verified plans, and what they
// show.
//
//   ASSIGN_OR_RETURN(const PlanTarget target, OpenPaperTarget(run, TeslaK40c()));
//   ASSIGN_OR_RETURN(const Planned planned,
//                    PlanNetwork(graph, {.accounting = Accounting::kPaper}, {.policy = "liveness"},
//                                target));
//   planned.result.plan.peak_bytes;
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "apps/cli/device_flag.h"
#include "apps/paper/paper_item.h"
#include "neap/core/graph/graph.h"
#include "neap/core/plan/plan_memory.h"
#include "neap/core/plan/planner.h"
#include "neap/core/program/program.h"
#include "neap/memory/planner_options.h"

namespace neap::apps {

// The device of --device, with the times of its database; without, the paper's GPU. Errors: those
// of OpenPlanTargetBy(); BadUsage() for a database without a device.
absl::StatusOr<PlanTarget> OpenPaperTarget(const PaperRun& run, DeviceDescription paper_gpu);

// Whether the target is here, so that its speeds can be measured.
inline bool CanTrain(const PlanTarget& target) { return target.device != nullptr; }

// "planned for Tesla K40c by the cost model: roofline, with one placeholder engine without
// workspace for each step", or what else is known of the device.
std::string TargetText(const PlanTarget& target);

struct Planned {
  Program program;
  PlanResult result;

  // The step of the largest sum of live activations, counted from 1.
  StepMemory Peak() const;
  double images_per_second() const;
};

// Lowers, plans and verifies. If the options have no host budget, it is the default of the command.
// Errors: those of Lower() and MakePlan().
absl::StatusOr<Planned> PlanNetwork(const Graph& graph, const ProgramOptions& lowering,
                                    PlannerOptions options, const PlanTarget& target);

// The same, but absent if the budget is too small.
absl::StatusOr<std::optional<Planned>> PlanIfItFits(const Graph& graph,
                                                    const ProgramOptions& lowering,
                                                    PlannerOptions options,
                                                    const PlanTarget& target);

// Images per second of `steps` training steps by a plan with these options; absent unless
// CanTrain(target), or if the device has no room. Errors: those of RunTrial(); CANCELLED after
// Ctrl-C.
absl::StatusOr<std::optional<double>> MeasuredSpeed(const Graph& graph, PlannerOptions options,
                                                    const PlanTarget& target, int64_t steps);

// The bytes of all tensors of the program but labels: each with bytes of its own, as the papers'
// baselines allocate them.
int64_t BytesOfAllTensors(const Program& program);
int CountOfAllTensors(const Program& program);

double InGibibytes(int64_t bytes);

}  // namespace neap::apps
