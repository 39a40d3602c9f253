#include "apps/paper/paper_chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"

namespace neap::apps {
namespace {

constexpr int kLeft = 90, kPlotWidth = 760, kRight = 30;
constexpr int kHeading = 40;                              // of the image
constexpr int kTop = 70, kPlotHeight = 220, kBelow = 50;  // of one chart
constexpr int kChartHeight = kTop + kPlotHeight + kBelow;
constexpr int kTicks = 5;            // of the y axis
constexpr size_t kMaxLabels = 24;    // of the x axis
constexpr double kPartOfBars = 0.8;  // of a group's width
// Colours of different lightness, which can be told apart without seeing colours.
constexpr std::array<const char*, 8> kColours = {"#08519c", "#fd8d3c", "#6baed6", "#31a354",
                                                 "#6a51a3", "#969696", "#a50f15", "#c7e9c0"};

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

const char* ColourOf(size_t series) { return kColours[series % kColours.size()]; }

// The smallest of 1, 2, 2.5, 5 times a power of ten that is at least `value`.
double RoundedUp(double value) {
  if (value <= 0) return 1;
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double digit : {1.0, 2.0, 2.5, 5.0}) {
    if (digit * power >= value * (1 - 1e-9)) return digit * power;
  }
  return 10 * power;
}

// One chart's layout in pixels.
struct Frame {
  int top = 0;      // of the plot
  double most = 1;  // the end of the y axis
  size_t places = 1;

  double Y(double value) const { return top + kPlotHeight * (1 - value / most); }
  double PlaceWidth() const {
    return static_cast<double>(kPlotWidth) / static_cast<double>(places);
  }
  double X(size_t place) const { return kLeft + (static_cast<double>(place) + 0.5) * PlaceWidth(); }
};

Frame FrameOf(const PaperChart& chart, int top) {
  Frame frame = {.top = top + kTop, .places = std::max<size_t>(chart.x.size(), 1)};
  double most = 0;
  for (const ChartSeries& series : chart.series) {
    for (const std::optional<double>& value : series.values)
      most = std::max(most, value.value_or(0));
  }
  frame.most = RoundedUp(most / kTicks) * kTicks;
  return frame;
}

std::string Legend(const PaperChart& chart, const Frame& frame) {
  std::string svg;
  int x = kLeft;
  for (size_t i = 0; i < chart.series.size(); ++i) {
    const std::string& name = chart.series[i].name;
    absl::StrAppendFormat(&svg, "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" fill=\"%s\"/>",
                          x, frame.top - 30, ColourOf(i));
    absl::StrAppendFormat(&svg, "<text x=\"%d\" y=\"%d\">%s</text>\n", x + 17, frame.top - 20,
                          Escaped(name));
    constexpr int kLetterWidth = 7;  // approximately, at 12 pixels' height
    x += 36 + kLetterWidth * static_cast<int>(name.size());
  }
  return svg;
}

std::string Axes(const PaperChart& chart, const Frame& frame) {
  std::string svg;
  for (int i = 0; i <= kTicks; ++i) {
    const double value = frame.most / kTicks * i;
    const double y = frame.Y(value);
    absl::StrAppendFormat(&svg,
                          "<line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"%s\"/>"
                          "<text x=\"%d\" y=\"%.1f\" class=\"left\">%g</text>\n",
                          kLeft, y, kLeft + kPlotWidth, y, i == 0 ? "#555" : "#ddd", kLeft - 8,
                          y + 4, value);
  }
  const size_t step = (chart.x.size() + kMaxLabels - 1) / kMaxLabels;
  for (size_t i = 0; i < chart.x.size(); i += std::max<size_t>(step, 1)) {
    absl::StrAppendFormat(&svg, "<text x=\"%.1f\" y=\"%d\" class=\"tick\">%s</text>\n", frame.X(i),
                          frame.top + kPlotHeight + 18, Escaped(chart.x[i]));
  }
  return svg;
}

std::string Bars(const PaperChart& chart, const Frame& frame) {
  const double width = frame.PlaceWidth() * kPartOfBars /
                       static_cast<double>(std::max<size_t>(chart.series.size(), 1));
  std::string svg;
  for (size_t s = 0; s < chart.series.size(); ++s) {
    const ChartSeries& series = chart.series[s];
    for (size_t i = 0; i < std::min(series.values.size(), frame.places); ++i) {
      if (!series.values[i].has_value()) continue;
      const double value = *series.values[i];
      const double left =
          frame.X(i) - frame.PlaceWidth() * kPartOfBars / 2 + width * static_cast<double>(s);
      absl::StrAppendFormat(&svg,
                            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
                            "fill=\"%s\"><title>%s, %s: %g</title></rect>\n",
                            left, frame.Y(value), width, frame.Y(0) - frame.Y(value), ColourOf(s),
                            Escaped(chart.x[i]), Escaped(series.name), value);
    }
  }
  return svg;
}

std::string Lines(const PaperChart& chart, const Frame& frame) {
  std::string svg;
  for (size_t s = 0; s < chart.series.size(); ++s) {
    const ChartSeries& series = chart.series[s];
    std::string points;
    for (size_t i = 0; i < std::min(series.values.size(), frame.places); ++i) {
      if (!series.values[i].has_value()) continue;
      const double y = frame.Y(*series.values[i]);
      absl::StrAppendFormat(&points, "%.1f,%.1f ", frame.X(i), y);
      absl::StrAppendFormat(&svg,
                            "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\" fill=\"%s\"><title>%s, %s: "
                            "%g</title></circle>\n",
                            frame.X(i), y, ColourOf(s), Escaped(chart.x[i]), Escaped(series.name),
                            *series.values[i]);
    }
    absl::StrAppendFormat(
        &svg, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\"/>\n",
        points, ColourOf(s));
  }
  return svg;
}

std::string ChartSvg(const PaperChart& chart, int top) {
  const Frame frame = FrameOf(chart, top);
  return absl::StrCat(absl::StrFormat("<text x=\"%d\" y=\"%d\" class=\"title\">%s</text>\n", kLeft,
                                      top + 18, Escaped(chart.title)),
                      absl::StrFormat("<text x=\"%d\" y=\"%d\" class=\"left\">%s</text>\n",
                                      kLeft - 8, frame.top - 8, Escaped(chart.y_label)),
                      Legend(chart, frame), Axes(chart, frame),
                      chart.lines ? Lines(chart, frame) : Bars(chart, frame));
}

}  // namespace

std::string ChartsSvg(const std::string& heading, const std::vector<PaperChart>& charts) {
  const int width = kLeft + kPlotWidth + kRight;
  const int height = kHeading + kChartHeight * static_cast<int>(charts.size());
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
      "height=\"%d\">\n",
      width, height, width, height);
  absl::StrAppend(
      &svg,
      "<style>text { font: 12px sans-serif; fill: #222 } .title { font-weight: bold; font-size: "
      "14px } .left { text-anchor: end } .tick { text-anchor: middle; fill: #555 }</style>\n",
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      "<text x=\"12\" y=\"24\" class=\"title\">", Escaped(heading), "</text>\n");
  for (size_t i = 0; i < charts.size(); ++i)
    absl::StrAppend(&svg, ChartSvg(charts[i], kHeading + kChartHeight * static_cast<int>(i)));
  return svg + "</svg>\n";
}

}  // namespace neap::apps
