#include "apps/bench/conv_chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "neap/core/base/units.h"

namespace neap::apps {
namespace {

constexpr int kPlotWidth = 560, kValueWidth = 70;
constexpr int kTop = 104, kBottom = 12;  // title, legend, axis; margin
constexpr int kBarHeight = 11, kBarGap = 2, kGroupGap = 12;
// Colours get darker as limits rise, so that bars can be told apart without seeing colours.
constexpr std::array<const char*, kMaxLimits> kColours = {"#9ecae1", "#4292c6", "#08519c",
                                                          "#6a51a3", "#3f007d"};

struct Group {
  std::string label;
  std::string detail;                           // tooltip
  std::vector<std::optional<double>> speedups;  // by limit
};

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

std::vector<Group> GroupsOf(const ConvBenchResult& result) {
  std::vector<Group> groups = {{.label = "all kernels", .detail = "each as often as it occurs"}};
  for (const LimitTotal& total : result.totals) groups.front().speedups.push_back(total.speedup());
  for (const ConvTimes& times : result.kernels) {
    const ConvKernel& kernel = times.kernel;
    Group group = {
        .label = absl::StrCat(kernel.name, " ", std::string(Name(kernel.signature.phase))),
        .detail = kernel.Shapes()};
    for (const ConvAtLimit& at : times.at_limits) group.speedups.push_back(at.speedup());
    groups.push_back(std::move(group));
  }
  return groups;
}

// The chart's layout in pixels.
struct Frame {
  int left = 0;         // left edge of the bars, right edge of the labels
  int height = 0;       // of the chart
  double axis_end = 2;  // the largest speedup, rounded up

  double X(double speedup) const { return left + kPlotWidth * speedup / axis_end; }
  int width() const { return left + kPlotWidth + kValueWidth; }
};

int GroupHeight(const Group& group) {
  return static_cast<int>(group.speedups.size()) * (kBarHeight + kBarGap) + kGroupGap;
}

Frame FrameOf(const std::vector<Group>& groups) {
  constexpr int kLetterWidth = 7;  // approximately, at 12 pixels' height
  Frame frame = {.left = 150, .height = kTop + kBottom};
  for (const Group& group : groups) {
    frame.left = std::max(frame.left, static_cast<int>(group.label.size()) * kLetterWidth + 24);
    frame.height += GroupHeight(group);
    for (const std::optional<double>& speedup : group.speedups)
      frame.axis_end = std::max(frame.axis_end, std::ceil(speedup.value_or(0)));
  }
  return frame;
}

std::string Legend(const std::vector<int64_t>& limits_bytes, const Frame& frame) {
  std::string svg = absl::StrFormat(
      "<text x=\"%d\" y=\"66\" class=\"label\">limit per kernel</text>\n", frame.left - 8);
  for (size_t i = 0; i < limits_bytes.size(); ++i) {
    const int x = frame.left + static_cast<int>(i) * 110;
    absl::StrAppendFormat(&svg, "<rect x=\"%d\" y=\"56\" width=\"12\" height=\"12\" fill=\"%s\"/>",
                          x, kColours[i]);
    absl::StrAppendFormat(&svg, "<text x=\"%d\" y=\"66\">%s</text>\n", x + 17,
                          FormatBytes(limits_bytes[i]));
  }
  return svg;
}

// A vertical line; darker at 1, where dividing changes nothing.
std::string Line(double at, const Frame& frame) {
  const double x = frame.X(at);
  return absl::StrFormat("<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"%s\"/>\n", x,
                         kTop - 8, x, frame.height - kBottom, at == 1 ? "#555" : "#ddd");
}

std::string Axis(const Frame& frame) {
  const double step = std::ceil(frame.axis_end / 10);
  std::string svg;
  for (double at = 0; at <= frame.axis_end; at += step) {
    absl::StrAppend(&svg, Line(at, frame));
    absl::StrAppendFormat(&svg, "<text x=\"%.1f\" y=\"%d\" class=\"tick\">%gx</text>\n",
                          frame.X(at), kTop - 13, at);
  }
  return svg + Line(1, frame);
}

std::string Bar(const std::optional<double>& speedup, const char* colour, int top,
                const Frame& frame) {
  const double end = frame.X(speedup.value_or(0));
  return absl::StrFormat(
      "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>"
      "<text x=\"%.1f\" y=\"%d\" class=\"value\">%s</text>\n",
      frame.left, top, end - frame.left, kBarHeight, colour, end + 4, top + kBarHeight - 2,
      SpeedupText(speedup));
}

std::string Bars(const Group& group, int top, const Frame& frame) {
  const int middle = top + (GroupHeight(group) - kGroupGap) / 2;
  std::string svg =
      absl::StrFormat("<g><title>%s: %s</title><text x=\"%d\" y=\"%d\" class=\"label\">%s</text>\n",
                      Escaped(group.label), Escaped(group.detail), frame.left - 8, middle + 4,
                      Escaped(group.label));
  for (size_t i = 0; i < group.speedups.size(); ++i) {
    svg += Bar(group.speedups[i], kColours[i], top, frame);
    top += kBarHeight + kBarGap;
  }
  return svg + "</g>\n";
}

std::string Head(const ConvBenchReport& report, const Frame& frame) {
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
      "height=\"%d\">\n",
      frame.width(), frame.height, frame.width(), frame.height);
  absl::StrAppend(&svg,
                  "<style>text { font: 12px sans-serif; fill: #222 } .title { font-weight: bold; "
                  "font-size: 14px } .label { text-anchor: end } .tick { text-anchor: middle; "
                  "fill: #555 } .value { font-size: 10px }</style>\n",
                  "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
                  "<text x=\"12\" y=\"22\" class=\"title\">Convolutions in micro-batches: speedup "
                  "over undivided ones</text>\n",
                  "<text x=\"12\" y=\"40\">", Escaped(Title(report.subject)), "</text>\n");
  return svg;
}

}  // namespace

std::string SpeedupChart(const ConvBenchReport& report) {
  const std::vector<Group> groups = GroupsOf(report.result);
  const Frame frame = FrameOf(groups);
  std::string svg = Head(report, frame);
  absl::StrAppend(&svg, Legend(report.result.limits_bytes, frame), Axis(frame));
  int top = kTop;
  for (const Group& group : groups) {
    svg += Bars(group, top, frame);
    top += GroupHeight(group);
  }
  return svg + "</svg>\n";
}

}  // namespace neap::apps
