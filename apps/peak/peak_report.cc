#include "apps/peak/peak_report.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/cli/predicted_speed.h"
#include "neap/core/base/units.h"

namespace neap::apps {
namespace {

bool PeaksAgree(const MemoryUse& memory) {
  return memory.measured_peak_bytes == memory.predicted_peak_bytes;
}

int64_t Size(const std::string& what, int64_t batch, const std::optional<int64_t>& depth) {
  return what == "depth" ? *depth : batch;
}

std::string RunText(const PeakResult& result, const PeakRun& run) {
  const MemoryUse& memory = run.trial.memory;
  std::string text = absl::StrFormat(
      "  trained at %s %d: %.1f images/s (%d steps), predicted peak %d, measured %d bytes %s\n",
      result.what, Size(result.what, run.trial.batch, run.depth), run.trial.images_per_second,
      run.trial.steps, memory.predicted_peak_bytes, memory.measured_peak_bytes,
      PeaksAgree(memory) ? "(equal)" : "(NOT EQUAL)");
  if (run.refused > 0) {
    absl::StrAppendFormat(&text, "    stepped down %d times: the device had no room for more\n",
                          run.refused);
  }
  return text;
}

Json RunJson(const PeakRun& run) {
  Json json = {{"batch", run.trial.batch}};
  if (run.depth.has_value()) json["depth"] = *run.depth;
  json.update({{"steps", run.trial.steps},
               {"steps_down", run.refused},
               {"images_per_second", run.trial.images_per_second},
               {"predicted_peak_bytes", run.trial.memory.predicted_peak_bytes},
               {"measured_peak_bytes", run.trial.memory.measured_peak_bytes},
               {"arena_bytes", run.trial.memory.arena_bytes},
               {"peaks_equal", PeaksAgree(run.trial.memory)}});
  return json;
}

std::string KeptText(const KeptSpeed& kept, const char* sources) {
  return absl::StrFormat(
      "    keeps %.1f%% of its speed without a budget: %.1f of %.1f images/s, %s\n", kept.Percent(),
      kept.images_per_second, kept.unlimited_images_per_second, sources);
}

std::string MeasuredText(const KeptSpeed& kept) {
  return KeptText(kept, kept.is_unlimited_measured
                            ? "both measured"
                            : "the first measured; the device has no room for the second");
}

Json KeptJson(const KeptSpeed& kept) {
  return {{"percent", kept.Percent()},
          {"images_per_second", kept.images_per_second},
          {"unlimited_images_per_second", kept.unlimited_images_per_second},
          {"unlimited_is_measured", kept.is_unlimited_measured}};
}

// The first nonempty text among the results, which are all of one device.
std::string FirstText(const std::vector<PeakRow>& rows, std::string PeakResult::*text) {
  for (const PeakRow& row : rows) {
    if (row.result.ok() && !((*row.result).*text).empty()) return (*row.result).*text;
  }
  return "";
}

const char* LimitedBy(const PeakResult& result) {
  if (result.by_speed) return "speed";
  if (result.at_most_size) return "network";
  return result.by_host ? "host budget" : "budget";
}

Json ResultJson(const PeakRow& row) {
  if (!row.result.ok()) {
    return {{"net", row.net},
            {"policy", row.policy},
            {"refused", std::string(row.result.status().message())}};
  }
  const PeakResult& result = *row.result;
  const Plan& plan = result.planned.plan;
  Json json = {{"net", plan.net}, {"policy", row.policy}, {"batch", result.batch}};
  if (result.depth.has_value()) json["depth"] = *result.depth;
  json.update(
      {{"limited_by", LimitedBy(result)},
       {"minimum_budget_bytes", result.planned.stats.minimum_budget_bytes},
       {"sub_batches", plan.sub_batches},
       {"batch_norm_in_parts", plan.batch_norm_in_parts},
       {"host_resident_bytes", plan.host_resident_bytes},
       {"peak_bytes", plan.peak_bytes},
       {"host_pool_bytes", plan.host_pool_bytes},
       {"peer_pool_bytes", plan.peer_pool_bytes},
       {"natural_bytes", result.natural.keep_all_bytes},
       {"natural_liveness_bytes", result.natural.liveness_bytes},
       {"predicted_ms", plan.predicted_ms},
       {"predicted_images_per_second", PredictedImagesPerSecond(result.planned)},
       {"measured_with", result.measured_with.empty() ? Json() : Json(result.measured_with)},
       {"engines_known", result.placeholder_engines.empty()},
       {"verified", true},
       {"probes", result.effort.probes},
       {"listed_sizes", result.effort.listed},
       {"plans", result.effort.plans},
       {"search_ms", result.search.elapsed_ms},
       {"plan_ms", result.plan_ms}});
  if (result.kept.has_value()) json["kept"] = KeptJson(*result.kept);
  if (result.run.has_value()) json["run"] = RunJson(*result.run);
  if (result.measured_kept.has_value()) json["measured_kept"] = KeptJson(*result.measured_kept);
  if (result.compared.has_value()) json["compared"] = RunJson(*result.compared);
  return json;
}

const char* Note(const PeakResult& result) {
  if (result.by_speed) return "  (limited by the speed to keep)";
  if (result.at_most_size) return "  (the largest possible)";
  return result.by_host ? "  (limited by the host budget)" : "";
}

// A row of the table, and what else is to be said of its result.
std::string ResultText(const std::string& policy, const PeakResult& result) {
  const Plan& plan = result.planned.plan;
  std::string text = absl::StrFormat(
      "  %-20s %-16s %8d %9.1f %12.1f ms %14s %14s %14s %7d %6d %7.0f ms %6.0f ms%s\n", plan.net,
      policy, Size(result.what, result.batch, result.depth),
      PredictedImagesPerSecond(result.planned), plan.predicted_ms, FormatBytes(plan.peak_bytes),
      FormatBytes(result.natural.keep_all_bytes), FormatBytes(plan.host_pool_bytes),
      result.effort.probes, result.effort.plans, result.search.elapsed_ms, result.plan_ms,
      Note(result));
  if (plan.sub_batches > 1)
    absl::StrAppendFormat(&text, "    in %d sub-batches%s\n", plan.sub_batches,
                          plan.batch_norm_in_parts ? ", batch norms of each alone" : "");
  if (plan.host_resident_bytes > 0)
    absl::StrAppendFormat(&text, "    with %s of parameters on the host between their uses\n",
                          FormatBytes(plan.host_resident_bytes));
  if (result.kept.has_value()) absl::StrAppend(&text, KeptText(*result.kept, "both predicted"));
  if (result.run.has_value()) absl::StrAppend(&text, RunText(result, *result.run));
  if (result.measured_kept.has_value()) absl::StrAppend(&text, MeasuredText(*result.measured_kept));
  if (result.compared.has_value()) absl::StrAppend(&text, RunText(result, *result.compared));
  return text;
}

}  // namespace

std::string ToText(const PeakReport& report) {
  std::string text = absl::StrFormat("largest %s in %s on %s\n", report.what,
                                     FormatBytes(report.budget_bytes), report.device);
  absl::StrAppendFormat(&text, "  host budget %s\n", report.host_budget.ToText());
  const std::string versions = FirstText(report.rows, &PeakResult::measured_with);
  if (!versions.empty())
    absl::StrAppendFormat(&text, "  kernel times measured with %s\n", versions);
  const std::string placeholders = FirstText(report.rows, &PeakResult::placeholder_engines);
  if (!placeholders.empty()) absl::StrAppendFormat(&text, "  engines are %s\n", placeholders);
  absl::StrAppendFormat(&text, "  %-20s %-16s %8s %9s %15s %14s %14s %14s %7s %6s %10s %9s\n",
                        "net", "policy", report.what, "images/s", "predicted", "peak",
                        "natural peak", "host memory", "probes", "plans", "search", "plan");
  for (const PeakRow& row : report.rows) {
    if (row.result.ok()) {
      absl::StrAppend(&text, ResultText(row.policy, *row.result));
    } else {
      absl::StrAppendFormat(&text, "  %-20s %-16s %8s\n", row.net, row.policy, "-");
    }
  }
  return text;
}

Json ToJson(const PeakReport& report) {
  Json rows = Json::array();
  Json policies = Json::array();
  for (const PeakRow& row : report.rows) {
    rows.push_back(ResultJson(row));
    if (row.net == report.rows.front().net) policies.push_back(row.policy);
  }
  Json json = {{"search", report.what}, {"policies", policies}};
  if (policies.size() == 1) json["policy"] = policies.front();
  json.update({{"device", report.device},
               {"budget_bytes", report.budget_bytes},
               {"host_budget_bytes", report.host_budget.ToJson()},
               {"results", std::move(rows)}});
  return json;
}

}  // namespace neap::apps
