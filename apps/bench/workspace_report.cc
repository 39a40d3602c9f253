#include "apps/bench/workspace_report.h"

#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/cli/interrupt.h"
#include "neap/core/base/units.h"

namespace neap::apps {
namespace {

// "1234.5 (1250.0)": measured (predicted).
std::string SpeedText(const std::optional<Speed>& speed) {
  if (!speed.has_value()) return kNothing;
  const std::string measured =
      speed->measured.has_value() ? absl::StrFormat("%.1f", *speed->measured) : kNothing;
  return absl::StrFormat("%s (%.1f)", measured, speed->predicted);
}

std::string ConfigurationText(const WorkspaceStep& step) {
  return step.configuration.empty() ? kNothing : step.configuration;
}

std::string StepName(const WorkspaceStep& step) {
  return absl::StrCat(step.layer, " ", std::string(Name(step.phase)));
}

// One line for each batch of the budget that begins at `run`, which is advanced past it. The last
// line may be incomplete.
std::string SpeedTable(const WorkspaceReport& report, size_t& run) {
  const int64_t budget_bytes = report.runs[run].budget_bytes;
  std::string text = absl::StrFormat("\n%s\n%8s", FormatBytes(budget_bytes), "batch");
  for (const std::string& rule : report.rules) absl::StrAppendFormat(&text, "  %20s", rule);
  for (; run < report.runs.size() && report.runs[run].budget_bytes == budget_bytes; ++run) {
    if (report.runs[run].rule == report.rules.front())
      absl::StrAppendFormat(&text, "\n%8d", report.runs[run].batch);
    absl::StrAppendFormat(&text, "  %20s", SpeedText(report.runs[run].speed));
  }
  return text + "\n";
}

// The runs of a budget by the first rule, which is the default, as far as they fit.
std::vector<const WorkspaceRun*> DefaultRuns(const WorkspaceReport& report, int64_t budget_bytes) {
  std::vector<const WorkspaceRun*> runs;
  for (const WorkspaceRun& run : report.runs) {
    const bool is_default = run.rule == report.rules.front();
    if (is_default && run.budget_bytes == budget_bytes && run.speed.has_value())
      runs.push_back(&run);
  }
  return runs;
}

std::string StepTable(const WorkspaceReport& report, int64_t budget_bytes) {
  const std::vector<const WorkspaceRun*> runs = DefaultRuns(report, budget_bytes);
  if (runs.empty()) return "";
  std::string text = absl::StrFormat("\nworkspaces in %s, rule %s\n", FormatBytes(budget_bytes),
                                     report.rules.front());
  for (size_t i = 0; i < runs.front()->steps.size(); ++i) {
    absl::StrAppend(&text, StepName(runs.front()->steps[i]), "\n");
    for (const WorkspaceRun* run : runs) {
      const WorkspaceStep& step = run->steps[i];
      absl::StrAppendFormat(&text, "%8d  %12s  %s\n", run->batch, FormatBytes(step.workspace_bytes),
                            ConfigurationText(step));
    }
  }
  return text;
}

// Why predictions may be inaccurate, and which commands would improve them.
std::string UnmeasuredText(const WorkspaceReport& report) {
  int64_t guessed = 0;
  std::set<int64_t> batches;
  for (const WorkspaceRun& run : report.runs) {
    if (run.measured_kernels >= run.kernels) continue;
    ++guessed;
    batches.insert(run.batch);
  }
  if (guessed == 0) return "";
  if (report.profile.empty())
    return "\nno measured times were read (--database none): predictions come from the cost "
           "model\n";
  std::string text = absl::StrFormat(
      "\nin %d of %d plans some kernel times were not measured; on %s this measures them:\n",
      guessed, report.runs.size(), report.device);
  for (const int64_t batch : batches)
    absl::StrAppend(&text, "  ", report.profile, " --batch ", batch, "\n");
  return text;
}

std::string StoppedText(const WorkspaceReport& report) {
  if (report.is_whole()) return "";
  const auto done = static_cast<int64_t>(report.runs.size());
  return absl::StrCat("\n", InterruptedText(done, report.plans, "plans"),
                      "; run again, the command begins with the first\n");
}

Json StepJson(const WorkspaceStep& step) {
  return {{"layer", step.layer},
          {"phase", Name(step.phase)},
          {"workspace_bytes", step.workspace_bytes},
          {"configuration", step.configuration}};
}

Json RunJson(const WorkspaceRun& run) {
  Json steps = Json::array();
  for (const WorkspaceStep& step : run.steps) steps.push_back(StepJson(step));
  const bool fits = run.speed.has_value();
  const auto if_fits = [fits](auto number) { return fits ? Json(number) : Json(); };
  return {{"budget_bytes", run.budget_bytes},
          {"batch", run.batch},
          {"rule", run.rule},
          {"fits", fits},
          {"images_per_second", OrNull(fits ? run.speed->measured : std::nullopt)},
          {"predicted_images_per_second", fits ? Json(run.speed->predicted) : Json()},
          {"kernels", if_fits(run.kernels)},
          {"measured_kernels", if_fits(run.measured_kernels)},
          {"offloaded_bytes", if_fits(run.offloaded_bytes)},
          {"steps", std::move(steps)}};
}

std::string Number(const std::optional<double>& number) {
  return number.has_value() ? absl::StrFormat("%.4f", *number) : "";
}

// The first fields of each line of a run.
std::string RunFields(const WorkspaceRun& run) {
  const std::string plan = absl::StrCat(run.budget_bytes, ",", run.batch, ",", run.rule, ",");
  if (!run.speed.has_value()) return plan + ",,";
  return absl::StrCat(plan, Number(run.speed->measured), ",", Number(run.speed->predicted), ",",
                      run.offloaded_bytes);
}

}  // namespace

std::string ToText(const WorkspaceReport& report) {
  const std::string versions =
      report.versions.empty() ? "" : absl::StrCat(" (", report.versions, ")");
  std::string text =
      absl::StrFormat("%s, %s, policy %s, on %s%s\nimages/s (as predicted)\n", report.net,
                      report.format, report.policy, report.device, versions);
  for (size_t run = 0; run < report.runs.size();) text += SpeedTable(report, run);
  return text + UnmeasuredText(report) + StoppedText(report);
}

std::string PerStepTables(const WorkspaceReport& report) {
  std::string text;
  std::optional<int64_t> budget_bytes;
  for (const WorkspaceRun& run : report.runs) {
    if (run.budget_bytes != budget_bytes) text += StepTable(report, run.budget_bytes);
    budget_bytes = run.budget_bytes;
  }
  return text;
}

Json ToJson(const WorkspaceReport& report) {
  Json runs = Json::array();
  for (const WorkspaceRun& run : report.runs) runs.push_back(RunJson(run));
  return {{"bench", "workspace"},    {"net", report.net},
          {"format", report.format}, {"policy", report.policy},
          {"device", report.device}, {"versions", report.versions},
          {"rules", report.rules},   {"interrupted", !report.is_whole()},
          {"plans", report.plans},   {"runs", std::move(runs)}};
}

std::string ToCsv(const WorkspaceReport& report) {
  std::string csv =
      "budget_bytes,batch,rule,images_per_second,predicted_images_per_second,offloaded_bytes,"
      "layer,phase,workspace_bytes,configuration\n";
  for (const WorkspaceRun& run : report.runs) {
    absl::StrAppend(&csv, RunFields(run), ",,,,\n");
    for (const WorkspaceStep& step : run.steps) {
      absl::StrAppend(&csv, RunFields(run), ",", CsvField(step.layer), ",",
                      std::string(Name(step.phase)), ",", step.workspace_bytes, ",",
                      CsvField(step.configuration), "\n");
    }
  }
  return csv;
}

}  // namespace neap::apps
