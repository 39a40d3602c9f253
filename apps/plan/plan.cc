// neap plan: plans one training iteration, verifies the plan and reports its memory and time.
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/cli/device_flag.h"
#include "apps/cli/flags.h"
#include "apps/cli/measured_device.h"
#include "apps/cli/net_flags.h"
#include "apps/cli/optimizer_flags.h"
#include "apps/cli/outcome.h"
#include "apps/cli/output.h"
#include "apps/cli/planning_flags.h"
#include "apps/cli/progress.h"
#include "apps/plan/curve_report.h"
#include "apps/plan/html_report.h"
#include "apps/plan/plan_report.h"
#include "apps/plan/planned_ranks.h"
#include "apps/plan/speed_curve.h"
#include "apps/plan/tensor_alternatives.h"
#include "neap/core/base/clock.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/graph/graph.h"
#include "neap/core/plan/cost_model.h"
#include "neap/core/plan/timeline.h"
#include "neap/core/plan/trace.h"
#include "neap/core/program/homes.h"
#include "neap/core/program/passes.h"
#include "neap/core/program/program.h"
#include "neap/core/program/shards.h"
#include "neap/core/verifier/verifier.h"
#include "neap/memory/engines/engine_table.h"
#include "neap/memory/planner.h"
#include "neap/memory/policies/policies.h"
#include "neap/memory/program_choice.h"

namespace neap::apps {
namespace {

struct PlanFlags {
  NetFlags net;
  PlanningFlags planning;
  std::string accounting = "exact";
  std::string plan_out;
  std::string trace_out;
  std::string report;
  bool per_step = false;
  bool curve = false;
  bool json = false;
  PlannedRanks ranks;
  OptimizerFlags optimizer;

  void AddTo(FlagSet& flags) {
    net.AddTo(flags);
    planning.AddTo(flags, PlannedDevices());
    flags.Add("accounting", "NAME", "count what kernels read, or what SuperNeurons counts",
              OneOf({"exact", "paper"}, &accounting));
    flags.Add("per-step", "also print time, memory and engine of every step", &per_step);
    flags.Add("plan-out", "FILE", "write the plan as JSON, for neap train --plan", Text(&plan_out));
    flags.Add("trace-out", "FILE", "write the predicted timeline as a Chrome trace",
              Text(&trace_out));
    flags.Add(
        "report", "FILE",
        "write a page for the browser with memory, time and every tensor's fate; with --curve, "
        "also the speed in each budget",
        Text(&report));
    flags.Add(
        "curve",
        "instead of one plan, print predicted images/s in a dozen budgets, for every policy or "
        "the one of --policy; takes a minute for resnet50, minutes for deeper networks",
        &curve);
    optimizer.AddMemoryTo(flags);
    ranks.AddTo(flags);
    flags.Add("json", "print one JSON object", &json);
  }

  // Errors: those of CheckOutputs(), and BadUsage() for flags that contradict each other.
  absl::Status Check(const FlagSet& flags) const {
    RETURN_IF_ERROR(optimizer.Check(flags));
    RETURN_IF_ERROR(net.CheckEngines(planning.kernels.engines));
    RETURN_IF_ERROR(ranks.Check(*net.options.batch));
    if (accounting == "paper" && ranks.count > 1)
      return BadUsage("--ranks and --accounting paper exclude each other");
    if (curve) RETURN_IF_ERROR(CheckCurve());
    return CheckOutputs(
        {{"--plan-out", plan_out}, {"--trace-out", trace_out}, {"--report", report}},
        {DatabaseFile(planning.kernels.database), DeviceFile(planning.device)});
  }

 private:
  // The curve has budgets of its own, prints no plan, and predicts the speed of programs that can
  // be run.
  absl::Status CheckCurve() const {
    for (const auto& [flag, is_given] : {std::pair("--budget", planning.has_budget()),
                                         {"--per-step", per_step},
                                         {"--plan-out", !plan_out.empty()},
                                         {"--trace-out", !trace_out.empty()},
                                         {"--accounting paper", accounting == "paper"}}) {
      if (is_given) return BadUsage(absl::StrCat("--curve and ", flag, " exclude each other"));
    }
    return absl::OkStatus();
  }
};

absl::StatusOr<Program> ProgramFor(const Graph& graph, const PlanFlags& flags,
                                   const ProgramChoice& choice, const DeviceDescription& device) {
  ProgramOptions options = PlanningFlags::Lowering(choice);
  options.accounting = flags.accounting == "paper" ? Accounting::kPaper : Accounting::kExact;
  options.optimizer = flags.optimizer.Get();
  options.share = flags.ranks.ShareOf(*flags.net.options.batch);
  options.sync_batch_norm = flags.ranks.sync_batch_norm;
  options.shard = ShardOf(options.share, flags.ranks.shard_optimizer);
  return Lower(graph, options, device);
}

absl::StatusOr<PlannerOptions> OptionsFor(const Program& program, const PlanFlags& flags,
                                          const PlanTarget& target) {
  PlannerOptions options = flags.planning.Options(target.description, target.kernels);
  NaturalPeaks peaks;
  if (flags.planning.budget.percent.has_value()) {
    ASSIGN_OR_RETURN(peaks,
                     FindNaturalPeaks(program, options, target.description, target.engines()));
  }
  options.budget_bytes = flags.planning.BudgetBytes(peaks);
  return options;
}

// `result` is the plan of `program`, made with `options`.
absl::StatusOr<PlanReport> MakeReport(const Graph& graph, const Program& program, PlanResult result,
                                      const PlannerOptions& options, const PlanFlags& flags,
                                      const PlanTarget& target) {
  PlanReport report = {.placement = options.placement,
                       .accounting = flags.accounting,
                       .host_budget = flags.planning.HostBudgetFor(target.description)};
  report.result = std::move(result);
  report.share = program.options.share;
  report.measured_with = MeasuredWith(target, report.result.stats);
  const InstalledTimings* const installed = UsedInstalledTimings(target);
  if (installed != nullptr && !report.measured_with.empty()) {
    report.installed = {.versions = installed->device().versions,
                        .same_versions = installed->is_of_same_versions(),
                        .alone = !installed->has_own()};
  }
  report.cost_model = CostModelOf(target.description);
  report.placeholder_engines = PlaceholderEngines(target, report.result.stats);
  const auto start = std::chrono::steady_clock::now();
  RETURN_IF_ERROR(Verify(report.result.plan));
  RETURN_IF_ERROR(MatchesProgram(report.result.plan, program));
  report.verify_ms = MillisecondsSince(start);
  // As in the papers, there must be no budget: within one, the peak does not show the accounting.
  const bool is_whole = program.options.sub_batches == 1;
  if (program.options.accounting == Accounting::kExact && is_whole &&
      !flags.planning.has_budget()) {
    absl::StatusOr<PaperComparison> compared =
        CompareWithPaper(graph, program, report.result, options, target.description);
    if (compared.ok()) {
      report.paper = *std::move(compared);
    } else if (!absl::IsUnimplemented(compared.status())) {  // networks that the paper has not
      return compared.status();
    }
  }
  return report;
}

// Under the paper's accounting every policy is compared, as in its Figure 10; otherwise, because
// some policies take seconds to plan, only keep-all, liveness and the plan's own.
bool IsCompared(const PlanFlags& flags, std::string_view policy) {
  return flags.accounting == "paper" || policy == "keep-all" || policy == "liveness";
}

// The plans of the program under the compared policies, including `plan`; parameters are on the
// host only if the flags say so. A policy for which the budget is too small is planned without one.
absl::StatusOr<std::vector<Plan>> PlansToCompare(Program program, const PlanFlags& flags,
                                                 const Plan& plan, const PlanTarget& target) {
  program = WithOffloadedParams(std::move(program), flags.planning.offload_params);
  PlannerOptions options = flags.planning.Options(target.description, target.kernels);
  std::vector<Plan> plans;
  for (const Policy& policy : Policies()) {
    if (policy.name == plan.policy) {
      plans.push_back(plan);
      continue;
    }
    if (!IsCompared(flags, policy.name) || !HasRoomFor(policy, options)) continue;
    options.policy = policy.name;
    options.budget_bytes = flags.planning.has_budget() ? plan.budget_bytes : kUnlimited;
    absl::StatusOr<PlanResult> result =
        MakePlan(program, options, target.description, target.engines());
    if (absl::IsResourceExhausted(result.status())) {
      options.budget_bytes = kUnlimited;
      result = MakePlan(program, options, target.description, target.engines());
    }
    RETURN_IF_ERROR(result.status());
    plans.push_back(std::move(result->plan));
  }
  return plans;
}

// The alternatives of the tensors, at the prices of the plan.
absl::StatusOr<std::vector<TensorAlternatives>> AlternativesOf(const Program& program,
                                                               const PlanFlags& flags,
                                                               const PlanTarget& target,
                                                               const TimelineCosts& costs) {
  const PlannerOptions options = flags.planning.Options(target.description, target.kernels);
  ASSIGN_OR_RETURN(EngineTable engines, EngineTable::List(program, options.kernels, options.strict,
                                                          target.description, target.engines()));
  ASSIGN_OR_RETURN(const RebuildPrices prices, engines.PriceReruns(program, target.engines()));
  return FindAlternatives(program, costs, prices, options.has_room_outside());
}

// `curve` is null without --curve.
absl::Status WriteReport(const PlanFlags& flags, const Program& program, const PlanResult& result,
                         const PlanTarget& target, Json curve) {
  const Plan& plan = result.plan;
  ReportOptions options = {.accounting = flags.accounting,
                           .has_budget = flags.planning.has_budget(),
                           .curve = std::move(curve)};
  ASSIGN_OR_RETURN(options.compared, PlansToCompare(program, flags, plan, target));
  ASSIGN_OR_RETURN(options.alternatives, AlternativesOf(program, flags, target, result.costs));
  const Timeline timeline = PredictTimeline(plan, result.costs);
  return WriteTextFile(flags.report, HtmlReport(plan, timeline, options));
}

absl::Status WriteFiles(const PlanFlags& flags, const Program& program, const PlanResult& result,
                        const PlanTarget& target) {
  const Plan& plan = result.plan;
  if (!flags.plan_out.empty()) RETURN_IF_ERROR(WriteTextFile(flags.plan_out, plan.ToJson()));
  if (!flags.trace_out.empty()) {
    const Timeline timeline = PredictTimeline(plan, result.costs);
    RETURN_IF_ERROR(WriteTextFile(flags.trace_out, TimelineTrace(plan, timeline)));
  }
  if (flags.report.empty()) return absl::OkStatus();
  return WriteReport(flags, program, result, target, nullptr);
}

// The page of --report also shows the plan without a budget.
absl::Status RunCurve(const Graph& graph, const Program& program, const PlanFlags& flags,
                      const PlanTarget& target) {
  const PlannerOptions options = flags.planning.Options(target.description, target.kernels);
  const std::string& policy = flags.planning.policy;
  const std::vector<std::string> policies =
      policy.empty() ? PoliciesOfCurve(options) : std::vector<std::string>{policy};
  std::optional<StatusLine> line(absl::StrCat("plan ", program.net.name));
  const auto show = [&line](const CurveProgress& now) {
    std::string text = absl::StrFormat("plan %d of at most %d, %s in %s", now.done + 1, now.total,
                                       now.policy, FormatBytes(now.budget_bytes));
    if (now.best_images_per_second > 0)
      absl::StrAppendFormat(&text, "; up to %.4g images/s so far", now.best_images_per_second);
    line->Show(text);
  };
  ASSIGN_OR_RETURN(const SpeedCurve curve,
                   PlanSpeedCurve(program, options, policies, target, show));
  line.reset();
  if (!curve.measured_with.empty()) PrintOtherVersions(target);
  Json json = ToJson(curve, program.net);
  if (!flags.report.empty()) {
    ASSIGN_OR_RETURN(PlanResult result,
                     MakePlan(program, options, target.description, target.engines()));
    ASSIGN_OR_RETURN(const PlanReport report,
                     MakeReport(graph, program, std::move(result), options, flags, target));
    RETURN_IF_ERROR(WriteReport(flags, program, report.result, target, json));
  }
  flags.json ? PrintJson(json) : Print(ToText(curve, program.net));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<int> RunPlan(const std::vector<std::string>& args) {
  PlanFlags given;
  FlagSet flags("neap plan NET [flags]",
                "Plans one training iteration, verifies the plan and reports its memory and time. "
                "Needs no GPU.");
  given.AddTo(flags);
  RETURN_IF_ERROR(flags.Parse(args));
  if (flags.help()) return PrintHelp(flags);
  RETURN_IF_ERROR(given.net.TakePlannedBatch(flags));
  RETURN_IF_ERROR(given.Check(flags));
  NetFlags net = given.net;
  net.options.batch = given.ranks.ImagesOf(*given.net.options.batch);
  ASSIGN_OR_RETURN(const Graph graph, net.Build());
  ASSIGN_OR_RETURN(PlanTarget target, OpenPlanTargetBy(given.planning.kernels,
                                                       given.planning.device, given.planning.peer));
  target.description = given.ranks.Describe(std::move(target.description));
  const auto lower = [&](const ProgramChoice& choice) {
    return ProgramFor(graph, given, choice, target.description);
  };
  ASSIGN_OR_RETURN(Program program, lower(given.planning.AskedProgram()));
  if (given.curve) {
    RETURN_IF_ERROR(RunCurve(graph, program, given, target));
    return 0;
  }
  ASSIGN_OR_RETURN(const PlannerOptions options, OptionsFor(program, given, target));
  ASSIGN_OR_RETURN(ChosenProgram chosen,
                   ChooseProgram(lower, options, target.description, target.engines()));
  ASSIGN_OR_RETURN(program, lower(chosen.choice));
  if (!chosen.plan.has_value()) {
    ASSIGN_OR_RETURN(chosen.plan, MakePlan(program, options, target.description, target.engines()));
  }
  ASSIGN_OR_RETURN(const PlanReport report,
                   MakeReport(graph, program, *std::move(chosen.plan), options, given, target));
  if (!report.measured_with.empty()) PrintOtherVersions(target);
  RETURN_IF_ERROR(WriteFiles(given, program, report.result, target));
  if (given.json) {
    PrintJson(ToJson(report, given.per_step));
  } else {
    Print(ToText(report));
    if (given.per_step) Print(PerStepTable(report.result));
  }
  return 0;
}

}  // namespace neap::apps
