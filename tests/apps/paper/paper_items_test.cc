#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "apps/paper/paper_chart.h"
#include "apps/paper/paper_item.h"
#include "apps/paper/paper_report.h"
#include "neap/core/base/clock.h"
#include "tests/scratch_directory.h"

namespace neap::testing {
namespace {

using apps::PaperFigure;
using apps::PaperItem;
using apps::PaperNeeds;
using apps::PaperReport;
using apps::PaperTable;

// What every report has, whatever it shows.
void CheckReport(const PaperItem& item, const PaperReport& report) {
  CHECK(!report.setting.empty());
  REQUIRE(!report.tables.empty());
  int ours = 0;
  for (const PaperTable& table : report.tables) {
    for (const PaperFigure& figure : table.figures) {
      ours += figure.ours.has_value() || !figure.text.empty();
      if (figure.ours.has_value()) CHECK(std::isfinite(*figure.ours));
    }
  }
  CHECK(ours > 0);
  for (const apps::PaperChart& chart : report.charts) {
    REQUIRE(!chart.series.empty());
    for (const apps::ChartSeries& series : chart.series)
      CHECK(series.values.size() <= chart.x.size());
  }
  const bool is_figure = item.place.starts_with("Figure");
  CHECK(report.charts.empty() != is_figure);
  if (is_figure) CHECK(apps::ChartsSvg(item.Heading(), report.charts).ends_with("</svg>\n"));
  CHECK(apps::ToText(item.Heading(), report).starts_with(item.name + ": "));
}

TEST_CASE("every item that is planned runs in its small form") {
  for (const PaperItem& item : apps::PaperItems()) {
    if (item.needs != PaperNeeds::kNothing) continue;
    CAPTURE(item.name);
    const auto begin = std::chrono::steady_clock::now();
    const absl::StatusOr<PaperReport> report = item.make({.small = true});
    REQUIRE_MESSAGE(report.ok(), report.status().ToString());
    CheckReport(item, *report);
    MESSAGE(item.name, ": ", MillisecondsSince(begin), " ms");
  }
}

TEST_CASE("every item that is measured runs in its small form on the CPU") {
  const ScratchDirectory directory;
  for (const PaperItem& item : apps::PaperItems()) {
    if (item.needs == PaperNeeds::kNothing) continue;
    CAPTURE(item.name);
    const auto begin = std::chrono::steady_clock::now();
    const std::string database =
        item.paper == "SuperNeurons" ? "none" : directory.File("profile.db");
    const absl::StatusOr<PaperReport> report =
        item.make({.small = true, .device = "cpu", .database = database, .steps = 1});
    REQUIRE_MESSAGE(report.ok(), report.status().ToString());
    CheckReport(item, *report);
    MESSAGE(item.name, ": ", MillisecondsSince(begin), " ms");
  }
}

}  // namespace
}  // namespace neap::testing
