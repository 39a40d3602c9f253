#include "apps/peak/peak_report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/cli/measured_device.h"
#include "apps/cli/outcome.h"
#include "apps/cli/progress.h"
#include "apps/peak/find_peak.h"
#include "neap/core/base/status_macros.h"
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
std::string FirstText(const std::vector<PeakResult>& results, std::string PeakResult::*text) {
  for (const PeakResult& result : results) {
    if (!(result.*text).empty()) return result.*text;
  }
  return "";
}

const char* LimitedBy(const PeakResult& result) {
  if (result.by_speed) return "speed";
  if (result.at_most_size) return "network";
  return result.by_host ? "host budget" : "budget";
}

Json ResultJson(const PeakResult& result) {
  const Plan& plan = result.planned.plan;
  Json json = {{"net", plan.net}, {"batch", result.batch}};
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
       {"predicted_ms", plan.predicted_ms},
       {"measured_with", result.measured_with.empty() ? Json() : Json(result.measured_with)},
       {"engines_known", result.placeholder_engines.empty()},
       {"verified", true},
       {"probes", result.search.probes},
       {"search_ms", result.search.elapsed_ms},
       {"plan_ms", result.plan_ms}});
  if (result.kept.has_value()) json["kept"] = KeptJson(*result.kept);
  if (result.run.has_value()) json["run"] = RunJson(*result.run);
  if (result.measured_kept.has_value()) json["measured_kept"] = KeptJson(*result.measured_kept);
  if (result.compared.has_value()) json["compared"] = RunJson(*result.compared);
  return json;
}

// "trying batch 812; batch 768 fits the budget", while a search goes on.
class PeakStatus {
 public:
  PeakStatus(const std::string& what, const std::string& net)
      : what_(what), line_(absl::StrCat("peak-", what, " ", net)) {}

  void Try(const std::string& doing, const NetFlags& net) {
    line_.Show(absl::StrCat(doing, " ", what_, " ", SizeOf(net), largest_ > 0 ? "; " : "", found_));
  }
  void Found(const std::string& what, const NetFlags& net) {
    if (what == is_ && SizeOf(net) <= largest_) return;
    is_ = what;
    largest_ = SizeOf(net);
    found_ = absl::StrCat(what_, " ", largest_, " ", what);
  }

 private:
  int64_t SizeOf(const NetFlags& net) const {
    return Size(what_, *net.options.batch, net.options.depth);
  }

  const std::string what_;
  StatusLine line_;
  std::string is_;       // what the largest size does that was found
  int64_t largest_ = 0;  // 0: none
  std::string found_;
};

}  // namespace

std::string ToText(const std::vector<PeakResult>& results, const HostBudget& host_budget) {
  const Plan& first = results.front().planned.plan;
  std::string text =
      absl::StrFormat("largest %s in %s with policy %s on %s\n", results.front().what,
                      FormatBytes(first.budget_bytes), first.policy, first.device);
  absl::StrAppendFormat(&text, "  host budget %s\n", host_budget.ToText());
  const std::string versions = FirstText(results, &PeakResult::measured_with);
  if (!versions.empty())
    absl::StrAppendFormat(&text, "  kernel times measured with %s\n", versions);
  const std::string placeholders = FirstText(results, &PeakResult::placeholder_engines);
  if (!placeholders.empty()) absl::StrAppendFormat(&text, "  engines are %s\n", placeholders);
  absl::StrAppendFormat(&text, "  %-20s %8s %14s %14s %12s %7s %10s %9s\n", "net",
                        results.front().what, "peak", "host memory", "predicted", "probes",
                        "search", "plan");
  for (const PeakResult& result : results) {
    const Plan& plan = result.planned.plan;
    absl::StrAppendFormat(&text, "  %-20s %8d %14s %14s %9.1f ms %7d %7.0f ms %6.0f ms%s\n",
                          plan.net, Size(result.what, result.batch, result.depth),
                          FormatBytes(plan.peak_bytes), FormatBytes(plan.host_pool_bytes),
                          plan.predicted_ms, result.search.probes, result.search.elapsed_ms,
                          result.plan_ms,
                          result.by_speed       ? "  (limited by the speed to keep)"
                          : result.at_most_size ? "  (the largest possible)"
                          : result.by_host      ? "  (limited by the host budget)"
                                                : "");
    if (plan.sub_batches > 1)
      absl::StrAppendFormat(&text, "    in %d sub-batches%s\n", plan.sub_batches,
                            plan.batch_norm_in_parts ? ", batch norms of each alone" : "");
    if (plan.host_resident_bytes > 0)
      absl::StrAppendFormat(&text, "    with %s of parameters on the host between their uses\n",
                            FormatBytes(plan.host_resident_bytes));
    if (result.kept.has_value()) absl::StrAppend(&text, KeptText(*result.kept, "both predicted"));
    if (result.run.has_value()) absl::StrAppend(&text, RunText(result, *result.run));
    if (result.measured_kept.has_value())
      absl::StrAppend(&text, MeasuredText(*result.measured_kept));
    if (result.compared.has_value()) absl::StrAppend(&text, RunText(result, *result.compared));
  }
  return text;
}

Json ToJson(const std::vector<PeakResult>& results, const HostBudget& host_budget) {
  const Plan& first = results.front().planned.plan;
  Json rows = Json::array();
  for (const PeakResult& result : results) rows.push_back(ResultJson(result));
  return {{"search", results.front().what},
          {"policy", first.policy},
          {"device", first.device},
          {"budget_bytes", first.budget_bytes},
          {"host_budget_bytes", host_budget.ToJson()},
          {"results", std::move(rows)}};
}

absl::StatusOr<int> FindAndPrint(const PeakFlags& flags, const std::vector<std::string>& nets,
                                 const Growth& growth) {
  RETURN_IF_ERROR(flags.Check());
  ASSIGN_OR_RETURN(
      const PlanTarget target,
      OpenPlanTargetBy(flags.planning.kernels, flags.planning.device, flags.planning.peer));
  if (flags.run && target.device == nullptr) {
    return BadUsage("--run needs a device to train on: --device cpu or cuda:N");
  }
  std::vector<PeakResult> results;
  for (const std::string& net : nets) {
    PeakStatus status(growth.what, net);
    Growth shown = growth;
    shown.on_size = [&](const std::string& doing, const NetFlags& sized) {
      status.Try(doing, sized);
    };
    shown.on_found = [&](const std::string& what, const NetFlags& sized) {
      status.Found(what, sized);
    };
    ASSIGN_OR_RETURN(PeakResult result, FindPeak(flags, target, shown, net));
    results.push_back(std::move(result));
  }
  if (!FirstText(results, &PeakResult::measured_with).empty()) PrintOtherVersions(target);
  const HostBudget host_budget = flags.planning.HostBudgetFor(target.description);
  flags.json ? PrintJson(ToJson(results, host_budget)) : Print(ToText(results, host_budget));
  return 0;
}

}  // namespace neap::apps
