// neap bench workspace: compares ways to choose workspaces when training within budgets.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/bench/bench.h"
#include "apps/bench/workspace_comparison.h"
#include "apps/bench/workspace_report.h"
#include "apps/cli/device_flag.h"
#include "apps/cli/flags.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/kernel_flags.h"
#include "apps/cli/measured_device.h"
#include "apps/cli/net_flags.h"
#include "apps/cli/outcome.h"
#include "apps/cli/output.h"
#include "apps/cli/progress.h"
#include "apps/train/trial_run.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/memory/policies/policies.h"

namespace neap::apps {
namespace {

constexpr int64_t kMaxSteps = 1'000'000;
constexpr size_t kMaxValues = 64;  // of each list

struct WorkspaceBenchCommand {
  NetFlags net;
  WorkspaceBenchOptions bench;
  KernelFlags kernels;
  std::string device;
  int64_t steps = 30;
  bool plan_only = false;
  bool per_step = false;
  std::string csv_path;
  bool json = false;
};

void AddFlags(WorkspaceBenchCommand& command, FlagSet& flags) {
  std::vector<std::string> policies;
  for (const Policy& known : Policies()) policies.emplace_back(known.name);
  flags.Positional("NET", kNetHelp, &command.net.name);
  command.net.AddShapesTo(flags);
  command.net.AddDepthTo(flags);
  flags.Add("budgets", "BYTES,...", "device memory for everything",
            BytesList(kMaxValues, &command.bench.budgets_bytes));
  flags.Add("batches", "N,...", "images in a batch",
            IntegerList(1, kMaxNetNumber, kMaxValues, &command.bench.batches));
  flags.Add("limits", "BYTES,...", "fixed workspace limits of each convolution to compare with",
            BytesList(kMaxValues, &command.bench.limits_bytes));
  flags.Add("policy", "NAME", "which tensors are kept, offloaded or recomputed",
            OneOf(policies, &command.bench.policy));
  command.kernels.AddDatabaseTo(flags);
  flags.Add("steps", "N",
            "training steps for each plan; the speed is the median after the first ten",
            Integer(1, kMaxSteps, &command.steps));
  flags.Add("plan-only", "predict and train nothing; needs no GPU", &command.plan_only);
  flags.Add("device", "DEVICE",
            absl::StrCat("cpu or cuda:N (cuda:0 if there is one, else cpu); with --plan-only also ",
                         kDescribedDevices),
            Text(&command.device));
  flags.Add("per-step", "also print the workspace of every convolution step by the default rule",
            &command.per_step);
  flags.Add("csv", "FILE", "write a line for every plan and each of its convolution steps",
            Text(&command.csv_path));
  flags.Add("json", "print one JSON object", &command.json);
}

// Borrows the line.
absl::StatusOr<PlanTarget> OpenTarget(const WorkspaceBenchCommand& command, ProgressLine& line) {
  if (command.plan_only)
    return OpenPlanTargetBy(command.kernels, command.device, /*peer=*/"", SayUnread(line));
  PlanTarget target;
  ASSIGN_OR_RETURN(target.device, OpenDevice(command.device, {.engines = command.kernels.engines}));
  target.description = target.device->description();
  ASSIGN_OR_RETURN(target.kernels,
                   command.kernels.Options(target.description, target.engines(), SayUnread(line)));
  return target;
}

// Returns the runs that were done before Ctrl-C.
absl::StatusOr<std::vector<WorkspaceRun>> RunAll(WorkspaceBench& bench, ProgressLine& line) {
  WatchForInterrupt();
  int64_t done = 0;
  absl::StatusOr<std::vector<WorkspaceRun>> runs = bench.Run([&](const WorkspaceRun& next) {
    if (Interrupted()) return false;
    line.Show(
        done++, bench.size(),
        absl::StrCat(FormatBytes(next.budget_bytes), ", batch ", next.batch, ", ", next.rule));
    return true;
  });
  if (runs.ok()) line.Show(static_cast<int64_t>(runs->size()), bench.size());
  line.End();
  return runs;
}

// The `neap profile` command, without --batch, that measures the kernels of these plans. Empty if
// its times would not be read.
std::string ProfileCommand(const WorkspaceBenchCommand& command, const PlanTarget& target) {
  if (!command.kernels.reads_database()) return "";
  const bool names_device = target.device != nullptr && !command.device.empty();
  return absl::StrCat("neap profile ", command.net.name, command.net.Arguments(),
                      names_device ? absl::StrCat(" --device ", command.device) : "",
                      command.kernels.ProfileArguments());
}

absl::StatusOr<WorkspaceReport> Measure(const WorkspaceBenchCommand& command) {
  ProgressLine line(absl::StrCat("bench workspace ", command.net.name), "plans");
  ASSIGN_OR_RETURN(const PlanTarget target, OpenTarget(command, line));
  TrainByPlan train;
  if (!command.plan_only) {
    train = [&](const Graph& graph, const PlannerOptions& options) -> absl::StatusOr<double> {
      ASSIGN_OR_RETURN(const TrialRun run, RunTrial(graph, *target.device, options, command.steps));
      if (Interrupted()) return absl::CancelledError("stopped");
      return run.images_per_second;
    };
  }
  WorkspaceBench bench(command.bench, command.net, target, std::move(train));
  ASSIGN_OR_RETURN(std::vector<WorkspaceRun> runs, RunAll(bench, line));
  const bool is_measured = std::any_of(
      runs.begin(), runs.end(), [](const WorkspaceRun& run) { return run.measured_kernels > 0; });
  if (is_measured) PrintOtherVersions(target);
  return WorkspaceReport{.net = command.net.name,
                         .format = absl::StrCat(command.net.dtype, " ", command.net.layout),
                         .policy = command.bench.policy,
                         .device = target.description.name,
                         .versions = target.engines().Versions(),
                         .profile = ProfileCommand(command, target),
                         .rules = bench.Rules(),
                         .runs = std::move(runs),
                         .plans = bench.size()};
}

void PrintReport(const WorkspaceBenchCommand& command, const WorkspaceReport& report) {
  if (command.json) return PrintJson(ToJson(report));
  Print(ToText(report));
  if (command.per_step) Print(PerStepTables(report));
}

}  // namespace

absl::StatusOr<int> RunWorkspaceBench(const std::vector<std::string>& args) {
  WorkspaceBenchCommand command;
  FlagSet flags("neap bench workspace NET [flags]",
                "Trains a network within budgets, at several batches, by each way to choose the "
                "workspaces of\nconvolutions: what is left, moDNN's gain, the better of both, and "
                "fixed limits. Reports how\nfast each is. After Ctrl-C it reports the plans that "
                "are done.");
  AddFlags(command, flags);
  RETURN_IF_ERROR(flags.Parse(args));
  if (flags.help()) return PrintHelp(flags);
  RETURN_IF_ERROR(
      CheckOutputs({{"--csv", command.csv_path}},
                   {DatabaseFile(command.kernels.database), DeviceFile(command.device)}));
  RETURN_IF_ERROR(command.net.CheckEngines(command.kernels.engines));
  ASSIGN_OR_RETURN(const WorkspaceReport report, Measure(command));
  // Checked first, so that minutes of work are not lost to a file that cannot be written.
  PrintReport(command, report);
  if (!command.csv_path.empty()) RETURN_IF_ERROR(WriteTextFile(command.csv_path, ToCsv(report)));
  return report.is_whole() ? 0 : InterruptedExitCode();
}

}  // namespace neap::apps
