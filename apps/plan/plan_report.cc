#include "apps/plan/plan_report.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/units.h"
#include "neap/core/plan/plan_memory.h"
#include "neap/core/plan/timeline.h"

namespace neap::apps {
namespace {

// How many kernel times are measured, and how many lie between measured ones.
std::string TimeSourcesText(const PlanReport& report) {
  const PlanningStats& stats = report.result.stats;
  std::string text =
      absl::StrFormat("%d of %d kernel times measured", stats.measured_runs, stats.runs);
  if (stats.interpolated_runs == 0) return text;
  absl::StrAppend(&text, ", ", stats.interpolated_runs, " between measured sizes");
  const bool has_others = report.installed.has_value() && !report.installed->same_versions;
  if (has_others) text += " or with other versions";
  return text;
}

// "cuDNN 9.19.0, cuBLASLt 13.1.0; times that come with neap"
std::string MeasuredWithText(const PlanReport& report) {
  std::string text = report.measured_with;
  if (!report.installed.has_value()) return text;
  absl::StrAppend(&text, report.installed->alone ? "; " : "; some are ",
                  "times that come with neap");
  if (report.installed->versions != report.measured_with)
    absl::StrAppend(&text, ", of ", report.installed->versions);
  return text;
}

// How far the smallest feasible arena exceeds the sum of live bytes, in percent.
double GapPercent(const PlanningStats& stats) {
  if (stats.placement_lower_bound == 0) return 0;
  return 100.0 * static_cast<double>(stats.minimum_budget_bytes - stats.placement_lower_bound) /
         static_cast<double>(stats.placement_lower_bound);
}

// How far the plan's time exceeds that which no plan in the budget falls below, in percent.
double TimeGapPercent(const PlanReport& report) {
  return std::max(100 * (report.result.plan.predicted_ms / report.result.stats.time_bound_ms - 1),
                  0.0);
}

// The sums over ranks of an iteration, as predicted, and what gathers parameters.
struct Sums {
  int64_t count = 0;
  int64_t bytes = 0;
  int64_t gathers = 0;
  int64_t gathered_bytes = 0;
  double ms = 0;
  double hidden_ms = 0;  // beneath computation
};
Sums SumsOf(const PlanResult& result) {
  Sums sums;
  for (const Action& action : result.plan.actions) {
    const auto* const collective = std::get_if<CollectiveAction>(&action);
    if (collective == nullptr) continue;
    const bool gathers = result.plan.steps[collective->step.index()].phase == Phase::kAllGather;
    ++(gathers ? sums.gathers : sums.count);
    (gathers ? sums.gathered_bytes : sums.bytes) += CollectiveBytes(result.plan, *collective);
  }
  const Overlap overlap = FindOverlap(result.plan, PredictTimeline(result.plan, result.costs));
  sums.ms = overlap.collective_us / 1e3;
  sums.hidden_ms = overlap.hidden_collective_us / 1e3;
  return sums;
}

std::string RanksText(const PlanReport& report) {
  const Sums sums = SumsOf(report.result);
  std::string text = absl::StrFormat(
      "  ranks                %d, with a batch of %d together; %d sums, %s\n", report.share.ranks,
      report.share.all_images, sums.count, FormatBytes(sums.bytes));
  if (sums.gathers > 0) {
    absl::StrAppendFormat(&text,
                          "  gathers              %d, %s, because the optimizer is sharded\n",
                          sums.gathers, FormatBytes(sums.gathered_bytes));
  }
  if (sums.ms == 0) {
    return text +
           "  sums over ranks      taken to cost nothing: neap devices --measure-collectives times "
           "them, --link predicts\n";
  }
  absl::StrAppendFormat(&text, "  sums over ranks      %.3f ms, %.1f%% beneath computation\n",
                        sums.ms, 100 * sums.hidden_ms / sums.ms);
  return text;
}

Json RanksJson(const PlanReport& report) {
  const Sums sums = SumsOf(report.result);
  return {{"ranks", report.share.ranks}, {"batch", report.share.all_images},
          {"sums", sums.count},          {"sum_bytes", sums.bytes},
          {"gathers", sums.gathers},     {"gathered_bytes", sums.gathered_bytes},
          {"sum_ms", sums.ms},           {"hidden_sum_ms", sums.hidden_ms}};
}

// A compute action's memory and the time that the plan assumes for it.
struct TimedStep {
  StepMemory memory;
  double predicted_ms = 0;
  TimeSource source = TimeSource::kModel;
};

std::string_view Name(TimeSource source) {
  if (source == TimeSource::kMeasured) return "measured";
  return source == TimeSource::kInterpolated ? "between" : "model";
}

std::vector<TimedStep> TimedSteps(const PlanResult& result) {
  std::vector<TimedStep> steps;
  for (StepMemory& memory : MemoryPerStep(result.plan)) {
    const size_t i = steps.size();
    steps.push_back({std::move(memory), result.costs.compute_seconds[i] * 1e3, result.sources[i]});
  }
  return steps;
}

Json ToJson(const Plan& plan, const TimedStep& timed) {
  const StepMemory& memory = timed.memory;
  const PlanStep& step = plan.steps[memory.step.index()];
  return {{"step", memory.step.value + 1},
          {"layer", step.layer},
          {"phase", Name(step.phase)},
          {"recompute", memory.recompute},
          {"predicted_ms", timed.predicted_ms},
          {"measured", timed.source == TimeSource::kMeasured},
          {"time_source", Name(timed.source)},
          {"live_bytes", memory.live_bytes},
          {"live_activation_bytes", memory.live_activation_bytes},
          {"live_tensors", memory.live_activations},
          {"free_bytes", memory.free_bytes},
          {"workspace_bytes", memory.workspace_bytes},
          {"host_bytes", memory.host_bytes},
          {"peer_bytes", memory.peer_bytes},
          {"engine", memory.engine}};
}

Json ToJson(const PaperComparison& c) {
  return {{"peak_activation_bytes", c.paper_bytes},
          {"peak_step", c.paper_step},
          {"lower_by_bytes", c.paper_bytes - c.exact_bytes},
          {"unread_bytes", c.unread_bytes},
          {"unread", c.unread},
          {"saved_bytes", c.saved_bytes},
          {"saved_tensors", c.saved_tensors},
          {"in_place_bytes", c.in_place_bytes},
          {"in_place_results", c.in_place_results}};
}

}  // namespace

Json PlanTotals(const Plan& plan) {
  return {{"net", plan.net},
          {"batch", plan.batch},
          {"sub_batches", plan.sub_batches},
          {"batch_norm_in_parts", plan.batch_norm_in_parts},
          {"dtype", Name(plan.dtype)},
          {"layout", Name(plan.layout)},
          {"policy", plan.policy},
          {"device", plan.device},
          {"budget_bytes", plan.budget_bytes},
          {"arena_bytes", plan.arena_bytes},
          {"peak_bytes", plan.peak_bytes},
          {"incoming_batch_bytes", IncomingBytes(plan)},
          {"host_peak_bytes", plan.host_peak_bytes},
          {"host_resident_bytes", plan.host_resident_bytes},
          {"peer_peak_bytes", plan.peer_peak_bytes},
          {"peak_activation_bytes", plan.peak_activation_bytes},
          {"peak_activation_mib", InMebibytes(plan.peak_activation_bytes)}};
}

std::string ToText(const PlanReport& report) {
  const PlanningStats& stats = report.result.stats;
  std::string text = report.result.plan.Summary();
  absl::StrAppendFormat(&text, "  minimum budget       %s (%d bytes)\n",
                        FormatBytes(stats.minimum_budget_bytes), stats.minimum_budget_bytes);
  absl::StrAppendFormat(&text, "  host memory          %s pinned; the budget is %s\n",
                        FormatBytes(report.result.plan.host_pool_bytes),
                        report.host_budget.ToText());
  if (report.result.plan.host_resident_bytes > 0) {
    absl::StrAppendFormat(&text, "  parameters on host   %s between their uses\n",
                          FormatBytes(report.result.plan.host_resident_bytes));
  }
  absl::StrAppendFormat(&text, "  placement bound      %s of the minimum budget; gap %.2f%% (%s)\n",
                        FormatBytes(stats.placement_lower_bound), GapPercent(stats),
                        Name(report.placement));
  absl::StrAppendFormat(&text, "  layer-wise bound     %.3f MiB at step %d; l_peak is %.3f MiB\n",
                        InMebibytes(stats.layerwise.bytes), stats.layerwise.step.value + 1,
                        InMebibytes(stats.layerwise.l_peak));
  absl::StrAppendFormat(&text, "  in-place results     %d\n", stats.in_place_tensors);
  absl::StrAppendFormat(&text,
                        "  planning time        engines listed in %.1f ms, planned in %.1f ms\n",
                        stats.engines_ms, stats.planning_ms);
  absl::StrAppendFormat(&text, "  predicted time       %.3f ms; %s\n",
                        report.result.plan.predicted_ms, TimeSourcesText(report));
  if (stats.measured_runs < stats.runs)
    absl::StrAppendFormat(&text, "  cost model           %s\n", report.cost_model);
  if (stats.time_bound_ms > 0) {
    absl::StrAppendFormat(&text, "  time bound           %.3f ms in this budget; gap %.1f%%\n",
                          stats.time_bound_ms, TimeGapPercent(report));
  }
  if (report.share.ranks > 1) text += RanksText(report);
  if (!report.measured_with.empty())
    absl::StrAppendFormat(&text, "  measured with        %s\n", MeasuredWithText(report));
  if (!report.placeholder_engines.empty())
    absl::StrAppendFormat(&text, "  engines              %s\n", report.placeholder_engines);
  absl::StrAppendFormat(&text, "  batch's copy         %.3f ms, %s\n", stats.batch_copy_ms,
                        report.result.plan.incoming_batch.has_value()
                            ? "within the device; from the host during the iteration before"
                            : "before the iteration");
  absl::StrAppendFormat(&text, "  verifier             accepted in %.1f ms\n", report.verify_ms);
  if (report.paper.has_value()) text += ToText(*report.paper);
  return text;
}

Json ToJson(const PlanReport& report, bool per_step) {
  const Plan& plan = report.result.plan;
  const PlanningStats& stats = report.result.stats;
  const std::vector<StepMemory> memory = MemoryPerStep(plan);
  const StepMemory peak = ActivationPeak(memory).value_or(StepMemory{});
  Json json = PlanTotals(plan);
  json["placement"] = Name(report.placement);
  json["accounting"] = report.accounting;
  json["peak_step"] = peak.serves.value + 1;
  json["peak_layer"] = plan.steps.empty() ? "" : plan.steps[peak.serves.index()].layer;
  json["live_tensors"] = peak.live_activations;
  json["minimum_budget_bytes"] = stats.minimum_budget_bytes;
  json["placement_lower_bound_bytes"] = stats.placement_lower_bound;
  json["placement_gap_percent"] = GapPercent(stats);
  json["l_peak_bytes"] = stats.layerwise.l_peak;
  json["layerwise_bound_bytes"] = stats.layerwise.bytes;
  const Movement movement = TotalMovement(plan);
  json["extra_forwards"] = movement.extra_forwards;
  json["offloaded_bytes"] = movement.offloaded_bytes;
  json["prefetched_bytes"] = movement.prefetched_bytes;
  json["peer_offloaded_bytes"] = movement.peer_offloaded_bytes;
  json["peer_prefetched_bytes"] = movement.peer_prefetched_bytes;
  json["host_budget_bytes"] = report.host_budget.ToJson();
  json["host_pool_bytes"] = plan.host_pool_bytes;
  json["peer_pool_bytes"] = plan.peer_pool_bytes;
  json["in_place_results"] = stats.in_place_tensors;
  json["steps"] = plan.steps.size();
  json["predicted_ms"] = plan.predicted_ms;
  json["time_bound_ms"] = stats.time_bound_ms > 0 ? Json(stats.time_bound_ms) : Json();
  json["time_gap_percent"] = stats.time_bound_ms > 0 ? Json(TimeGapPercent(report)) : Json();
  json["batch_copy_ms"] = stats.batch_copy_ms;
  json["measured_runs"] = stats.measured_runs;
  json["interpolated_runs"] = stats.interpolated_runs;
  json["cost_model"] = report.cost_model;
  json["runs"] = stats.runs;
  json["measured_with"] = report.measured_with.empty() ? Json() : Json(report.measured_with);
  json["installed_times"] =
      report.installed.has_value() ? Json(report.installed->versions) : Json();
  json["engines_known"] = report.placeholder_engines.empty();
  json["engines_ms"] = stats.engines_ms;
  json["planning_ms"] = stats.planning_ms;
  json["verified"] = true;
  json["verify_ms"] = report.verify_ms;
  json["plan_hash"] = absl::StrFormat("%016x", plan.Hash());
  if (report.share.ranks > 1) json["data_parallel"] = RanksJson(report);
  if (report.paper.has_value()) json["paper"] = ToJson(*report.paper);
  if (!per_step) return json;
  for (const TimedStep& step : TimedSteps(report.result))
    json["per_step"].push_back(ToJson(plan, step));
  return json;
}

std::string PerStepTable(const PlanResult& result) {
  std::string table = absl::StrFormat("%6s  %-28s %-15s %10s %-8s %14s %7s %14s %14s  %s\n", "step",
                                      "layer", "phase", "ms", "by", "live bytes", "tensors",
                                      "free bytes", "workspace", "engine");
  for (const TimedStep& timed : TimedSteps(result)) {
    const StepMemory& memory = timed.memory;
    const PlanStep& step = result.plan.steps[memory.step.index()];
    const std::string phase =
        absl::StrCat(memory.recompute ? "again " : "", std::string(Name(step.phase)));
    absl::StrAppendFormat(&table, "%6d  %-28s %-15s %10.4f %-8s %14d %7d %14d %14d  %s\n",
                          memory.step.value + 1, step.layer, phase, timed.predicted_ms,
                          Name(timed.source), memory.live_bytes, memory.live_activations,
                          memory.free_bytes, memory.workspace_bytes, memory.engine);
  }
  return table;
}

}  // namespace neap::apps
