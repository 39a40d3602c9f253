// The report that `neap paper NAME` shows: the figures of one table or figure of a paper beside
// those that neap plans or measures, and pictures of those that the paper draws.
//
// Papers print some figures and only draw others. A figure that is neither in a table nor in the
// text of a paper has no `paper` value, because it cannot be read exactly; notes say what the text
// states about it.
//
//   PaperReport report = {.setting = "AlexNet, batch 200"};
//   report.tables.push_back({.title = "peak", .figures = {{.what = "liveness", .paper = 1489.355,
//                            .ours = 1489.355, .decimals = 3, .unit = "MiB"}}});
//   report.notes.push_back("The paper counts activations and their gradients only.");
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/cli/output.h"

namespace neap::apps {

struct PaperFigure {
  std::string what;                  // "extra forwards, speed-centric"
  std::optional<double> paper = {};  // as published
  std::optional<double> ours = {};   // absent if it was not planned or measured
  int decimals = 0;                  // of both, when printed
  std::string unit = {};
  std::string text = {};  // instead of `ours`: what has no number
};

// A part of a report.
struct PaperTable {
  std::string title;
  std::vector<PaperFigure> figures;
};

struct ChartSeries {
  std::string name;
  std::vector<std::optional<double>> values;  // by place on the x axis
};

// Bars in groups, or lines.
struct PaperChart {
  std::string title;
  std::string y_label;
  std::vector<std::string> x;  // the places, at equal distances
  std::vector<ChartSeries> series;
  bool lines = false;
};

struct PaperReport {
  std::string setting;  // networks, batches, device; where times come from
  std::vector<PaperTable> tables;
  std::vector<std::string> notes;
  std::vector<PaperChart> charts;
};

// "equal" if both print the same, else the difference in percent of the paper's; "-" unless both
// are known.
std::string Difference(const PaperFigure& figure);

// "sn-table1  SuperNeurons, Table 1: ..." is the heading of both.
std::string ToText(const std::string& heading, const PaperReport& report);
Json ToJson(const PaperReport& report);

}  // namespace neap::apps
