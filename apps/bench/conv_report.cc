#include "apps/bench/conv_report.h"

#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "apps/cli/interrupt.h"
#include "neap/core/base/units.h"

namespace neap::apps {
namespace {

double Ms(double seconds) { return seconds * 1e3; }

// "12.3450 (12.1000)": executed (predicted). Only the prediction if nothing was executed.
std::string TimesText(const ConvSeconds& seconds) {
  if (!seconds.executed.has_value()) return absl::StrFormat("%.4f", Ms(seconds.predicted));
  return absl::StrFormat("%.4f (%.4f)", Ms(*seconds.executed), Ms(seconds.predicted));
}

std::string TimesText(const std::optional<TimedConfiguration>& timed) {
  return timed.has_value() ? TimesText(timed->seconds) : kNothing;
}

std::string Row(const std::string& limit, const std::string& undivided, const std::string& divided,
                const std::string& speedup, const std::string& rest) {
  std::string row =
      absl::StrFormat("  %12s  %22s  %22s  %8s  %s", limit, undivided, divided, speedup, rest);
  row.erase(row.find_last_not_of(' ') + 1);
  return row + "\n";
}

std::string KernelText(const ConvTimes& times, const std::vector<int64_t>& limits_bytes) {
  const ConvKernel& kernel = times.kernel;
  std::string text =
      absl::StrFormat("%s %s, %s%s\n", kernel.name, Name(kernel.signature.phase), kernel.Shapes(),
                      kernel.count > 1 ? absl::StrCat(", ", kernel.count, " of them") : "");
  for (size_t i = 0; i < limits_bytes.size(); ++i) {
    const ConvAtLimit& at = times.at_limits[i];
    std::string chosen = kNothing;
    if (at.divided.has_value()) {
      chosen =
          absl::StrFormat("%12s  %7.2f  %s", FormatBytes(at.divided->configuration.workspace_bytes),
                          kernel.Teraflops(at.divided->seconds.best_known()),
                          ToString(at.divided->configuration.parts));
    }
    text += Row(FormatBytes(limits_bytes[i]), TimesText(at.undivided), TimesText(at.divided),
                SpeedupText(at.speedup()), chosen);
  }
  return text;
}

// The kernels that the sums leave out.
std::string MissingText(const LimitTotal& total) {
  std::vector<std::string> missing;
  if (total.only_divided > 0) {
    missing.push_back(absl::StrCat("without ", total.only_divided, " that fit only divided, in ",
                                   TimesText(total.only_divided_seconds)));
  }
  if (total.left_out > 0)
    missing.push_back(absl::StrCat("without ", total.left_out, " that do not fit"));
  return absl::StrJoin(missing, "; ");
}

std::string TotalText(const LimitTotal& total, int64_t limit_bytes) {
  const bool any = total.speedup().has_value();
  return Row(FormatBytes(limit_bytes), any ? TimesText(total.undivided) : kNothing,
             any ? TimesText(total.divided) : kNothing, SpeedupText(total.speedup()),
             MissingText(total));
}

std::string LeftOutText(int64_t engines) {
  if (engines == 0) return "";
  return absl::StrFormat("%d %s left out: not built, or failed when run\n", engines,
                         engines == 1 ? "engine" : "engines");
}

std::string WorkspaceText(const WorkspaceComparison& c) {
  const auto times = [](const std::optional<ConvSeconds>& seconds) {
    return seconds.has_value() ? TimesText(*seconds) : kNothing;
  };
  std::string text =
      absl::StrFormat("one workspace of %s for %d kernels, divided among them (WD)\n",
                      FormatBytes(c.total_bytes), c.kernels);
  absl::StrAppendFormat(&text, "  %s for each (WR)  %s\n", FormatBytes(c.limit_bytes()),
                        times(c.separate));
  absl::StrAppendFormat(&text, "  divided  %s, speedup %s\n", times(c.divided),
                        SpeedupText(c.speedup()));
  if (!c.divided.has_value()) return text;
  absl::StrAppendFormat(
      &text,
      "  %s used; proven within %.4f%% of the best; a 0-1 program of %d variables "
      "solved in %.1f ms\n",
      FormatBytes(c.used_bytes), 100 * c.gap, c.variables, Ms(c.solver_seconds));
  return text;
}

std::string NameOf(const ConvKernel& kernel) {
  return absl::StrCat(kernel.name, " ", std::string(Name(kernel.signature.phase)));
}

// A configuration with its workspace and time.
std::string ConfigurationText(const Configuration& configuration, const std::string& times) {
  return absl::StrFormat("%12s  %22s  %s", FormatBytes(configuration.workspace_bytes), times,
                         ToString(configuration.parts));
}

std::string FrontsText(const ConvBenchResult& result) {
  std::string text = "desirable configurations: workspace, ms as predicted\n";
  for (const ConvTimes& times : result.kernels) {
    absl::StrAppendFormat(&text, "%s, %d of them\n", NameOf(times.kernel), times.front.size());
    for (const Configuration& one : times.front) {
      absl::StrAppend(&text, "  ", ConfigurationText(one, absl::StrFormat("%.4f", Ms(one.seconds))),
                      "\n");
    }
  }
  return text;
}

std::string SegmentsText(const ConvBenchResult& result, bool executed) {
  std::string text = absl::StrCat("segments of the divided workspace: bytes, ms as ",
                                  executed ? "executed (as predicted)\n" : "predicted\n");
  for (const WorkspaceSegment& segment : result.workspace->segments) {
    absl::StrAppendFormat(
        &text, "  %-28s  %s\n", NameOf(result.kernels[segment.kernel].kernel),
        ConfigurationText(segment.timed.configuration, TimesText(segment.timed.seconds)));
  }
  return text;
}

std::string TablesText(const ConvBenchResult& result, bool executed) {
  std::string text = executed ? "ms as executed (as predicted)\n\n"
                              : "ms as predicted from the database; nothing was executed\n\n";
  text +=
      Row("limit", "undivided", "divided (WR)", "speedup", "   workspace  TFLOP/s  configuration");
  for (const ConvTimes& times : result.kernels) text += KernelText(times, result.limits_bytes);
  if (!result.totals.empty()) text += "all kernels, each as often as it occurs\n";
  for (size_t i = 0; i < result.totals.size(); ++i)
    text += TotalText(result.totals[i], result.limits_bytes[i]);
  if (result.workspace.has_value()) text += WorkspaceText(*result.workspace);
  return text;
}

std::string StoppedText(const ConvBenchReport& report) {
  if (report.result.is_whole()) return "";
  if (report.steps_done < report.steps) {
    return InterruptedText(report.steps_done, report.steps, "steps of measuring") +
           "; run again, the command continues from here\n";
  }
  const int64_t done = std::ssize(report.result.kernels), asked = report.result.kernels_asked;
  return absl::StrCat(InterruptedText(done, asked, "kernels"),
                      done < asked ? "" : ", before one workspace was divided among them (WD)",
                      "; run again, the command measures no engine again, but times all kernels\n");
}

Json TimesJson(const ConvSeconds& seconds) {
  return {{"ms", seconds.executed.has_value() ? Json(Ms(*seconds.executed)) : Json()},
          {"predicted_ms", Ms(seconds.predicted)}};
}

Json TimesJson(const std::optional<ConvSeconds>& seconds) {
  return seconds.has_value() ? TimesJson(*seconds) : Json();
}

Json ConfigurationJson(const std::optional<TimedConfiguration>& timed) {
  if (!timed.has_value()) return {};
  Json json = TimesJson(timed->seconds);
  json["workspace_bytes"] = timed->configuration.workspace_bytes;
  json["configuration"] = ToString(timed->configuration.parts);
  return json;
}

Json KernelJson(const ConvTimes& times, const std::vector<int64_t>& limits_bytes) {
  const auto configuration = [&](const std::optional<TimedConfiguration>& timed) {
    Json json = ConfigurationJson(timed);
    if (timed.has_value()) json["tflops"] = times.kernel.Teraflops(timed->seconds.best_known());
    return json;
  };
  Json limits = Json::array();
  for (size_t i = 0; i < limits_bytes.size(); ++i) {
    const ConvAtLimit& at = times.at_limits[i];
    limits.push_back({{"limit_bytes", limits_bytes[i]},
                      {"undivided", configuration(at.undivided)},
                      {"divided", configuration(at.divided)},
                      {"speedup", OrNull(at.speedup())}});
  }
  Json front = Json::array();
  for (const Configuration& one : times.front) {
    front.push_back({{"workspace_bytes", one.workspace_bytes},
                     {"predicted_ms", Ms(one.seconds)},
                     {"configuration", ToString(one.parts)}});
  }
  return {{"name", times.kernel.name},       {"phase", Name(times.kernel.signature.phase)},
          {"shapes", times.kernel.Shapes()}, {"count", times.kernel.count},
          {"limits", std::move(limits)},     {"front", std::move(front)}};
}

Json TotalJson(const LimitTotal& total, int64_t limit_bytes) {
  Json only_divided = {{"kernels", total.only_divided}};
  only_divided.update(TimesJson(total.only_divided_seconds));
  return {{"limit_bytes", limit_bytes},
          {"undivided", TimesJson(total.undivided)},
          {"divided", TimesJson(total.divided)},
          {"speedup", OrNull(total.speedup())},
          {"only_divided", std::move(only_divided)},
          {"left_out", total.left_out}};
}

Json WorkspaceJson(const WorkspaceComparison& c) {
  Json segments = Json::array();
  for (const WorkspaceSegment& segment : c.segments) {
    Json one = {{"kernel", segment.kernel}};
    one.update(ConfigurationJson(segment.timed));
    segments.push_back(std::move(one));
  }
  return {{"total_bytes", c.total_bytes},
          {"kernels", c.kernels},
          {"limit_bytes", c.limit_bytes()},
          {"separate", TimesJson(c.separate)},
          {"divided", TimesJson(c.divided)},
          {"speedup", OrNull(c.speedup())},
          {"variables", c.variables},
          {"used_bytes", c.used_bytes},
          {"gap", c.gap},
          {"solver_ms", Ms(c.solver_seconds)},
          {"segments", std::move(segments)}};
}

// ms, predicted ms, workspace, configuration.
std::string Fields(const std::optional<TimedConfiguration>& timed) {
  if (!timed.has_value()) return ",,,";
  const std::optional<double>& executed = timed->seconds.executed;
  return absl::StrFormat("%s,%.6f,%d,%s",
                         executed.has_value() ? absl::StrFormat("%.6f", Ms(*executed)) : "",
                         Ms(timed->seconds.predicted), timed->configuration.workspace_bytes,
                         CsvField(ToString(timed->configuration.parts)));
}

}  // namespace

std::string Title(const ConvBenchSubject& subject) {
  return absl::StrCat(subject.set, ", ", subject.format, ", parts ", subject.divisions, ", on ",
                      subject.device, subject.executed ? "" : ", predicted");
}

std::string SpeedupText(const std::optional<double>& speedup) {
  return speedup.has_value() ? absl::StrFormat("%.2fx", *speedup) : kNothing;
}

std::string ToText(const ConvBenchReport& report, const ConvDetails& details) {
  const ConvBenchResult& result = report.result;
  std::string text =
      absl::StrFormat("convolutions of %s (%s)\n", Title(report.subject), report.subject.versions);
  if (!result.kernels.empty()) text += TablesText(result, report.subject.executed);
  if (details.fronts && result.is_whole()) text += FrontsText(result);
  if (details.segments && result.is_whole()) text += SegmentsText(result, report.subject.executed);
  return text + LeftOutText(result.engines_left_out) + StoppedText(report);
}

Json ToJson(const ConvBenchReport& report) {
  const ConvBenchResult& result = report.result;
  Json kernels = Json::array();
  for (const ConvTimes& times : result.kernels)
    kernels.push_back(KernelJson(times, result.limits_bytes));
  Json totals = Json::array();
  for (size_t i = 0; i < result.totals.size(); ++i)
    totals.push_back(TotalJson(result.totals[i], result.limits_bytes[i]));
  return {{"bench", "conv"},
          {"set", report.subject.set},
          {"format", report.subject.format},
          {"divisions", report.subject.divisions},
          {"device", report.subject.device},
          {"versions", report.subject.versions},
          {"executed", report.subject.executed},
          {"interrupted", !result.is_whole()},
          {"steps", report.steps},
          {"steps_done", report.steps_done},
          {"kernels_asked", result.kernels_asked},
          {"kernels", std::move(kernels)},
          {"totals", std::move(totals)},
          {"workspace_division",
           result.workspace.has_value() ? WorkspaceJson(*result.workspace) : Json()},
          {"engines_left_out", result.engines_left_out}};
}

std::string ToCsv(const ConvBenchResult& result) {
  std::string csv =
      "name,phase,shapes,count,limit_bytes,"
      "undivided_ms,undivided_predicted_ms,undivided_workspace_bytes,undivided_configuration,"
      "divided_ms,divided_predicted_ms,divided_workspace_bytes,divided_configuration,speedup\n";
  for (const ConvTimes& times : result.kernels) {
    const ConvKernel& kernel = times.kernel;
    for (size_t i = 0; i < result.limits_bytes.size(); ++i) {
      const ConvAtLimit& at = times.at_limits[i];
      const std::optional<double> speedup = at.speedup();
      absl::StrAppend(&csv, CsvField(kernel.name), ",", std::string(Name(kernel.signature.phase)),
                      ",", kernel.Shapes(), ",", kernel.count, ",", result.limits_bytes[i], ",",
                      Fields(at.undivided), ",", Fields(at.divided), ",",
                      speedup.has_value() ? absl::StrFormat("%.4f", *speedup) : "", "\n");
    }
  }
  return csv;
}

}  // namespace neap::apps
