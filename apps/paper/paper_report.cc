#include "apps/paper/paper_report.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace neap::apps {
namespace {

constexpr int kMinWhatWidth = 24;

std::string NumberText(const std::optional<double>& value, const PaperFigure& figure) {
  if (!value.has_value()) return kNothing;
  const std::string number = absl::StrFormat("%.*f", figure.decimals, *value);
  return figure.unit.empty() ? number : absl::StrCat(number, " ", figure.unit);
}

std::string OursText(const PaperFigure& figure) {
  return figure.text.empty() ? NumberText(figure.ours, figure) : figure.text;
}

struct Widths {
  int what = kMinWhatWidth;
  int paper = 5;
  int ours = 4;
};

Widths WidthsOf(const PaperReport& report) {
  Widths widths;
  const auto widen = [](int& width, const std::string& text) {
    width = std::max(width, static_cast<int>(text.size()));
  };
  for (const PaperTable& table : report.tables) {
    for (const PaperFigure& figure : table.figures) {
      widen(widths.what, figure.what);
      widen(widths.paper, NumberText(figure.paper, figure));
      widen(widths.ours, OursText(figure));
    }
  }
  return widths;
}

std::string Row(const Widths& widths, const std::string& what, const std::string& paper,
                const std::string& ours, const std::string& difference) {
  return absl::StrFormat("  %-*s  %*s  %*s  %10s\n", widths.what, what, widths.paper, paper,
                         widths.ours, ours, difference);
}

Json ChartJson(const PaperChart& chart) {
  Json series = Json::array();
  for (const ChartSeries& one : chart.series) {
    Json values = Json::array();
    for (const std::optional<double>& value : one.values) values.push_back(OrNull(value));
    series.push_back({{"name", one.name}, {"values", std::move(values)}});
  }
  return {
      {"title", chart.title}, {"y", chart.y_label}, {"x", chart.x}, {"series", std::move(series)}};
}

}  // namespace

std::string Difference(const PaperFigure& figure) {
  if (!figure.paper.has_value() || !figure.ours.has_value()) return kNothing;
  if (NumberText(figure.paper, figure) == NumberText(figure.ours, figure)) return "equal";
  if (*figure.paper == 0) return absl::StrFormat("%+.*f", figure.decimals, *figure.ours);
  return absl::StrFormat("%+.1f%%", 100 * (*figure.ours / *figure.paper - 1));
}

std::string ToText(const std::string& heading, const PaperReport& report) {
  const Widths widths = WidthsOf(report);
  std::string text = absl::StrCat(heading, "\n", report.setting, "\n");
  absl::StrAppend(&text, Row(widths, "", "paper", "neap", "difference"));
  for (const PaperTable& table : report.tables) {
    absl::StrAppend(&text, table.title, "\n");
    for (const PaperFigure& figure : table.figures) {
      absl::StrAppend(&text, Row(widths, figure.what, NumberText(figure.paper, figure),
                                 OursText(figure), Difference(figure)));
    }
  }
  for (const std::string& note : report.notes) absl::StrAppend(&text, note, "\n");
  return text;
}

Json ToJson(const PaperReport& report) {
  Json tables = Json::array();
  for (const PaperTable& table : report.tables) {
    Json figures = Json::array();
    for (const PaperFigure& figure : table.figures) {
      figures.push_back({{"what", figure.what},
                         {"unit", figure.unit},
                         {"paper", OrNull(figure.paper)},
                         {"neap", figure.text.empty() ? OrNull(figure.ours) : Json(figure.text)}});
    }
    tables.push_back({{"title", table.title}, {"figures", std::move(figures)}});
  }
  Json charts = Json::array();
  for (const PaperChart& chart : report.charts) charts.push_back(ChartJson(chart));
  return {{"setting", report.setting},
          {"tables", std::move(tables)},
          {"notes", report.notes},
          {"charts", std::move(charts)}};
}

}  // namespace neap::apps
