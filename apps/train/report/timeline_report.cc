#include "apps/train/report/timeline_report.h"

#include <utility>
#include <vector>

#include "absl/strings/str_format.h"

namespace neap::apps {
namespace {

struct Row {
  const char* label;
  const char* field;  // in JSON
  double us = 0;
};

double BusyUs(const Timeline& timeline, Stream stream) {
  return timeline.busy_us[static_cast<size_t>(stream)];
}

double StalledUs(const Timeline& timeline) {
  double stalled_us = 0;
  for (const Stall& stall : timeline.stalls) stalled_us += stall.end_us - stall.begin_us;
  return stalled_us;
}

std::vector<Row> Rows(const TimelineTotals& totals) {
  const auto& [timeline, overlap] = totals;
  return {{"total", "total_us", timeline.total_us},
          {"compute runs", "compute_us", BusyUs(timeline, Stream::kCompute)},
          {"d2h runs", "d2h_us", BusyUs(timeline, Stream::kD2h)},
          {"h2d runs", "h2d_us", BusyUs(timeline, Stream::kH2d)},
          {"compute waits", "stalled_us", StalledUs(timeline)},
          {"either copy runs", "copying_us", overlap.copying_us},
          {"  and compute", "hidden_us", overlap.hidden_us},
          {"both copies run", "both_ways_us", overlap.both_ways_us},
          {"  and compute", "hidden_both_ways_us", overlap.hidden_both_ways_us},
          {"sums over ranks run", "collective_us", overlap.collective_us},
          {"  and compute", "hidden_collective_us", overlap.hidden_collective_us}};
}

Json ToJson(const TimelineTotals& totals) {
  Json json;
  for (const Row& row : Rows(totals)) json[row.field] = row.us;
  return json;
}

}  // namespace

TimelineComparison CompareTimelines(const Plan& plan, int64_t step, Timeline predicted,
                                    Timeline measured) {
  TimelineComparison comparison = {.step = step};
  comparison.predicted = {.timeline = std::move(predicted)};
  comparison.measured = {.timeline = std::move(measured)};
  for (TimelineTotals* totals : {&comparison.predicted, &comparison.measured})
    totals->overlap = FindOverlap(plan, totals->timeline);
  return comparison;
}

std::string ToText(const TimelineComparison& comparison) {
  constexpr double kUsPerMs = 1e3;
  std::string text =
      absl::StrFormat("  %-26s %12s  %12s\n", absl::StrFormat("timed step %d", comparison.step),
                      "predicted", "measured");
  const std::vector<Row> predicted = Rows(comparison.predicted);
  const std::vector<Row> measured = Rows(comparison.measured);
  for (size_t i = 0; i < measured.size(); ++i) {
    if (predicted[i].us == 0 && measured[i].us == 0) continue;  // no copies
    absl::StrAppendFormat(&text, "    %-24s %9.3f ms  %9.3f ms\n", measured[i].label,
                          predicted[i].us / kUsPerMs, measured[i].us / kUsPerMs);
  }
  return text;
}

Json ToJson(const TimelineComparison& comparison) {
  return {{"step", comparison.step},
          {"predicted", ToJson(comparison.predicted)},
          {"measured", ToJson(comparison.measured)}};
}

}  // namespace neap::apps
