#include "apps/bench/workspace_comparison.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "apps/cli/planning_flags.h"
#include "apps/cli/predicted_speed.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/plan/plan_memory.h"
#include "neap/core/program/passes.h"
#include "neap/core/program/program.h"
#include "neap/core/verifier/verifier.h"

namespace neap::apps {
namespace {

std::vector<WorkspaceStep> ConvolutionSteps(const Program& program, const Plan& plan) {
  std::vector<WorkspaceStep> steps;
  for (const Action& action : plan.actions) {
    const auto* compute = std::get_if<ComputeAction>(&action);
    if (compute == nullptr || compute->recompute) continue;
    const Step& step = program.steps[compute->step.index()];
    if (!IsDivisible(program.Signature(step))) continue;
    steps.push_back({.layer = plan.steps[compute->step.index()].layer,
                     .phase = step.phase,
                     .workspace_bytes = compute->workspace ? compute->workspace->bytes : 0,
                     .configuration = ToString(compute->engines)});
  }
  return steps;
}

}  // namespace

std::vector<WorkspaceBench::Rule> WorkspaceBench::MakeRules() const {
  std::vector<Rule> rules = {
      {"best", target_.kernels}, {"left-over", target_.kernels}, {"gain", target_.kernels}};
  rules[0].kernels.workspace_rule = WorkspaceRule::kBest;
  rules[1].kernels.workspace_rule = WorkspaceRule::kLeftOver;
  rules[2].kernels.workspace_rule = WorkspaceRule::kGain;
  for (const int64_t limit_bytes : options_.limits_bytes) {
    rules.push_back({absl::StrCat("limit ", FormatBytes(limit_bytes)), target_.kernels});
    rules.back().kernels.workspace_limit_bytes = limit_bytes;
  }
  return rules;
}

std::vector<std::string> WorkspaceBench::Rules() const {
  std::vector<std::string> names;
  for (const Rule& rule : MakeRules()) names.push_back(rule.name);
  return names;
}

int64_t WorkspaceBench::size() const {
  return static_cast<int64_t>(options_.budgets_bytes.size() * options_.batches.size() *
                              Rules().size());
}

absl::StatusOr<std::vector<WorkspaceRun>> WorkspaceBench::Run(
    const std::function<bool(const WorkspaceRun& next)>& go_on) {
  std::vector<WorkspaceRun> runs;
  for (const int64_t budget_bytes : options_.budgets_bytes) {
    for (const int64_t batch : options_.batches) {
      net_.options.batch = batch;
      ASSIGN_OR_RETURN(const Graph graph, net_.Build());
      std::vector<Trained> trained;
      for (const Rule& rule : MakeRules()) {
        WorkspaceRun next = {.budget_bytes = budget_bytes, .batch = batch, .rule = rule.name};
        if (!go_on(next)) return runs;
        absl::StatusOr<WorkspaceRun> run = RunBy(rule, std::move(next), graph, trained);
        if (absl::IsCancelled(run.status())) return runs;
        RETURN_IF_ERROR(run.status());
        runs.push_back(*std::move(run));
      }
    }
  }
  return runs;
}

absl::StatusOr<WorkspaceRun> WorkspaceBench::RunBy(const Rule& rule, WorkspaceRun run,
                                                   const Graph& graph,
                                                   std::vector<Trained>& trained) const {
  ASSIGN_OR_RETURN(const Program program, Lower(graph, {}, target_.description));
  const PlannerOptions options = {.budget_bytes = run.budget_bytes,
                                  .host_budget_bytes = MostHostMemory(target_.description).bytes,
                                  .policy = options_.policy,
                                  .strict = target_.description.kind == "cpu",
                                  .kernels = rule.kernels};
  const absl::StatusOr<PlanResult> result =
      MakePlan(program, options, target_.description, target_.engines());
  if (absl::IsResourceExhausted(result.status())) return run;
  RETURN_IF_ERROR(result.status());
  const Plan& plan = result->plan;
  RETURN_IF_ERROR(Verify(plan));
  RETURN_IF_ERROR(MatchesProgram(plan, program));
  run.speed = Speed{.predicted = PredictedImagesPerSecond(*result)};
  run.kernels = result->stats.runs;
  run.measured_kernels = result->stats.measured_runs;
  run.offloaded_bytes = TotalMovement(plan).offloaded_bytes;
  run.steps = ConvolutionSteps(program, plan);
  ASSIGN_OR_RETURN(run.speed->measured, TrainOnce(plan, graph, options, trained));
  return run;
}

absl::StatusOr<std::optional<double>> WorkspaceBench::TrainOnce(
    const Plan& plan, const Graph& graph, const PlannerOptions& options,
    std::vector<Trained>& trained) const {
  if (train_ == nullptr) return std::nullopt;
  const auto known = std::find_if(trained.begin(), trained.end(), [&](const Trained& other) {
    return other.actions == plan.actions;
  });
  if (known != trained.end()) return known->images_per_second;
  const absl::StatusOr<double> speed = train_(graph, options);
  if (!speed.ok() && !absl::IsResourceExhausted(speed.status())) return speed.status();
  trained.push_back({plan.actions, speed.ok() ? std::optional<double>(*speed) : std::nullopt});
  return trained.back().images_per_second;
}

}  // namespace neap::apps
