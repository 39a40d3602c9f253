// u-cuDNN, Figures 1, 6 and 8 to 10: convolutions one by one.
#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/paper/ucudnn.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/step/operands.h"

namespace neap::apps::ucudnn {
namespace {

constexpr char kGroupsNote[] =
    "The paper's AlexNet is Caffe's, whose second, fourth and fifth convolutions are in two "
    "groups; "
    "neap's is one tower.";

PaperFigure Milliseconds(const std::string& what, std::optional<double> seconds) {
  PaperFigure figure = {.what = what, .decimals = 3, .unit = "ms"};
  if (seconds.has_value()) figure.ours = 1e3 * *seconds;
  return figure;
}

PaperFigure Faster(const std::string& what, std::optional<double> ours,
                   std::optional<double> paper = {}) {
  return {.what = what, .paper = paper, .ours = ours, .decimals = 2, .unit = "x"};
}

PaperFigure Workspace(const std::string& what, int64_t bytes, std::optional<double> paper = {}) {
  return {.what = what, .paper = paper, .ours = InMebibytes(bytes), .decimals = 2, .unit = "MiB"};
}

// The bytes of the kernel's operands.
int64_t OperandBytes(const ConvKernel& kernel) {
  int64_t bytes = 0;
  for (const OperandSpec& operand : kernel.signature.operands) bytes += operand.tensor.size_bytes();
  return bytes;
}

// A layer's three kernels under one limit.
struct LayerAtLimit {
  int64_t data_bytes = 0;       // of the kernel with the most
  int64_t workspace_bytes = 0;  // the largest
  double seconds = 0;
};

std::vector<std::string> LayersOf(const ConvBenchResult& result) {
  std::vector<std::string> layers;
  for (const ConvTimes& times : result.kernels) {
    if (layers.empty() || layers.back() != times.kernel.name) layers.push_back(times.kernel.name);
  }
  return layers;
}

LayerAtLimit LayerOf(const ConvBenchResult& result, const std::string& name, size_t limit) {
  LayerAtLimit layer;
  for (const ConvTimes& times : result.kernels) {
    if (times.kernel.name != name) continue;
    layer.data_bytes = std::max(layer.data_bytes, OperandBytes(times.kernel));
    const std::optional<TimedConfiguration>& chosen = times.at_limits[limit].undivided;
    if (!chosen.has_value()) continue;
    layer.workspace_bytes = std::max(layer.workspace_bytes, chosen->configuration.workspace_bytes);
    layer.seconds += chosen->seconds.best_known();
  }
  return layer;
}

// The second layer's forward kernel: AlexNet's conv2.
absl::StatusOr<const ConvTimes*> SecondForward(const ConvBenchResult& result) {
  const std::vector<std::string> layers = LayersOf(result);
  for (const ConvTimes& times : result.kernels) {
    const bool is_second = layers.size() > 1 && times.kernel.name == layers[1];
    if (is_second && times.kernel.signature.phase == Phase::kForward) return &times;
  }
  return absl::InternalError("the network has no second convolution");
}

// The speedups of the kernels of one size, such as 3x3.
struct Speedups {
  double sum = 0, least = 0, most = 0;
  int count = 0;

  void Add(double speedup) {
    least = count == 0 ? speedup : std::min(least, speedup);
    most = std::max(most, speedup);
    sum += speedup;
    ++count;
  }
  std::optional<double> Mean() const {
    return count == 0 ? std::nullopt : std::optional<double>(sum / count);
  }
};

std::string SizeOf(const ConvKernel& kernel) {
  const Shape& weight = kernel.signature.Spec(operands::Param(0)).shape;
  return absl::StrCat(weight.h(), "x", weight.w());
}

std::map<std::string, Speedups> SpeedupsBySize(const ConvBenchResult& result) {
  std::map<std::string, Speedups> by_size;
  for (const ConvTimes& times : result.kernels) {
    const std::optional<double> speedup = times.at_limits[0].speedup();
    if (!speedup.has_value()) continue;
    by_size[SizeOf(times.kernel)].Add(*speedup);
    by_size["all"].Add(*speedup);
  }
  return by_size;
}

// Figure 8 in one element type.
absl::Status AddSpeedups(const PaperRun& run, const std::string& dtype, const std::string& layout,
                         std::optional<double> mean, std::optional<double> most,
                         std::optional<double> mean_of_3x3, PaperReport& report,
                         PaperChart& chart) {
  ConvBenchRequest request = {.net = {.name = run.small ? "lenet" : "deepbench"},
                              .batch_factor = run.small ? 1 : 4,
                              .bench = {.limits_bytes = {64 * UnitOf(run)}},
                              .forward_only = true};
  if (run.small) request.net.options.batch = 4;
  request.net.dtype = dtype;
  request.net.layout = layout;
  ASSIGN_OR_RETURN(const ConvBenchReport measured, MeasuredConvolutions(run, std::move(request)));
  report.setting = SettingOf(measured);
  const std::map<std::string, Speedups> by_size = SpeedupsBySize(measured.result);
  PaperTable table = {.title = absl::StrCat(dtype, " ", layout)};
  ChartSeries series = {.name = table.title};
  for (const auto& [size, speedups] : by_size) {
    const bool is_all = size == "all";
    table.figures.push_back(Faster(absl::StrCat(size, ", mean of ", speedups.count),
                                   speedups.Mean(),
                                   is_all ? mean : (size == "3x3" ? mean_of_3x3 : std::nullopt)));
    table.figures.push_back(
        Faster(absl::StrCat(size, ", largest"), speedups.most, is_all ? most : std::nullopt));
    if (chart.series.empty()) chart.x.push_back(size);
  }
  for (const std::string& size : chart.x) {
    const auto found = by_size.find(size);
    series.values.push_back(found == by_size.end() ? std::nullopt : found->second.Mean());
  }
  chart.series.push_back(std::move(series));
  report.tables.push_back(std::move(table));
  return absl::OkStatus();
}

int64_t WorkspacesOf(const ConvBenchResult& result, size_t limit, bool divided) {
  int64_t bytes = 0;
  for (const ConvTimes& times : result.kernels) {
    const ConvAtLimit& at = times.at_limits[limit];
    const std::optional<TimedConfiguration>& side = divided ? at.divided : at.undivided;
    if (side.has_value()) bytes += times.kernel.count * side->configuration.workspace_bytes;
  }
  return bytes;
}

}  // namespace

absl::StatusOr<PaperReport> Figure1(const PaperRun& run) {
  ASSIGN_OR_RETURN(
      const ConvBenchReport measured,
      MeasuredConvolutions(run, AlexNet(run, DivisionPolicy::kUndivided, {8, 64, 512})));
  PaperReport report = {.setting = SettingOf(measured)};
  const ConvBenchResult& result = measured.result;
  PaperChart memory = {
      .title = "memory of a layer", .y_label = "MiB", .series = {{.name = "data"}}};
  PaperChart time = {.title = "time of a layer's three steps", .y_label = "ms"};
  for (const int64_t limit : result.limits_bytes) {
    memory.series.push_back({.name = absl::StrCat("workspace in ", FormatBytes(limit))});
    time.series.push_back({.name = FormatBytes(limit)});
  }
  for (const std::string& name : LayersOf(result)) {
    PaperTable table = {.title = name};
    table.figures.push_back(Workspace("data", LayerOf(result, name, 0).data_bytes));
    memory.x.push_back(name);
    memory.series[0].values.emplace_back(InMebibytes(LayerOf(result, name, 0).data_bytes));
    for (size_t i = 0; i < result.limits_bytes.size(); ++i) {
      const LayerAtLimit layer = LayerOf(result, name, i);
      const std::string in = absl::StrCat(" in ", FormatBytes(result.limits_bytes[i]));
      table.figures.push_back(Workspace("workspace" + in, layer.workspace_bytes));
      table.figures.push_back(Milliseconds("time" + in, layer.seconds));
      memory.series[i + 1].values.emplace_back(InMebibytes(layer.workspace_bytes));
      time.series[i].values.emplace_back(1e3 * layer.seconds);
    }
    report.tables.push_back(std::move(table));
  }
  time.x = memory.x;
  report.charts = {std::move(memory), std::move(time)};
  report.notes = {"The paper draws these for a P100.", kGroupsNote};
  return report;
}

absl::StatusOr<PaperReport> Figure6(const PaperRun& run) {
  ConvBenchRequest request = AlexNet(run, DivisionPolicy::kAll, {120});
  request.bench.total_bytes = request.bench.limits_bytes[0];
  ASSIGN_OR_RETURN(const ConvBenchReport measured, MeasuredConvolutions(run, std::move(request)));
  PaperReport report = {.setting = SettingOf(measured)};
  ASSIGN_OR_RETURN(const ConvTimes* const second, SecondForward(measured.result));
  PaperTable table = {.title = absl::StrCat(NameOf(second->kernel), ", ", second->front.size(),
                                            " desirable configurations, as predicted")};
  PaperChart chart = {.title = "time by workspace",
                      .y_label = "ms",
                      .series = {{.name = NameOf(second->kernel)}},
                      .lines = true};
  for (const Configuration& one : second->front) {
    table.figures.push_back(Milliseconds(
        absl::StrCat(FormatBytes(one.workspace_bytes), ": ", ToString(one.parts)), one.seconds));
    chart.x.push_back(FormatBytes(one.workspace_bytes));
    chart.series[0].values.emplace_back(1e3 * one.seconds);
  }
  report.tables = {std::move(table)};
  report.charts = {std::move(chart)};
  report.notes = {
      "The paper draws this front for a P100; neap bench conv --fronts prints all of them.",
      kGroupsNote};
  return report;
}

absl::StatusOr<PaperReport> Figure8(const PaperRun& run) {
  PaperReport report;
  PaperChart chart = {.title = "mean speedup in 64 MiB by size of the kernel", .y_label = "x"};
  RETURN_IF_ERROR(AddSpeedups(run, "fp32", "nchw", {}, {}, {}, report, chart));
  const bool has_half = !run.small && run.device != "cpu";
  if (has_half) RETURN_IF_ERROR(AddSpeedups(run, "fp16", "nchw", 1.60, 4.54, 1.73, report, chart));
  report.charts = {std::move(chart)};
  report.notes = {
      "The published figures are those of half precision on a V100, with batches times four; the "
      "others are only drawn. On a P100 the mean of 3x3 kernels in half precision is 1.16x."};
  return report;
}

absl::StatusOr<PaperReport> Figure9(const PaperRun& run) {
  const std::vector<int64_t> limits = {8, 64, 512};
  ASSIGN_OR_RETURN(const ConvBenchReport power,
                   MeasuredConvolutions(run, AlexNet(run, DivisionPolicy::kPowerOfTwo, limits)));
  ASSIGN_OR_RETURN(const ConvBenchReport all,
                   MeasuredConvolutions(run, AlexNet(run, DivisionPolicy::kAll, limits)));
  PaperReport report = {.setting = SettingOf(all)};
  PaperChart chart = {.title = "time of all convolutions",
                      .y_label = "ms",
                      .series = {{.name = "undivided"}, {.name = "powerOfTwo"}, {.name = "all"}}};
  for (size_t i = 0; i < limits.size(); ++i) {
    const LimitTotal& in_all = all.result.totals[i];
    const LimitTotal& in_power = power.result.totals[i];
    const double undivided = in_all.undivided.best_known();
    // The paper's value is for 64 MiB, on a K80.
    const std::optional<double> paper =
        limits[i] == 64 ? Published(run, 2.10) : std::optional<double>();
    report.tables.push_back(
        {.title = absl::StrCat(FormatBytes(all.result.limits_bytes[i]), " for each kernel"),
         .figures = {Milliseconds("undivided", undivided),
                     Milliseconds("powerOfTwo", in_power.divided.best_known()),
                     Milliseconds("all", in_all.divided.best_known()),
                     Faster("speedup of powerOfTwo", in_power.speedup()),
                     Faster("speedup of all", in_all.speedup(), paper),
                     Workspace("workspaces, undivided", WorkspacesOf(all.result, i, false)),
                     Workspace("workspaces, all", WorkspacesOf(all.result, i, true))}});
    chart.x.push_back(FormatBytes(all.result.limits_bytes[i]));
    chart.series[0].values.emplace_back(1e3 * undivided);
    chart.series[1].values.emplace_back(1e3 * in_power.divided.best_known());
    chart.series[2].values.emplace_back(1e3 * in_all.divided.best_known());
  }
  report.charts = {std::move(chart)};
  report.notes = {
      "The published speedup of the convolutions in 64 MiB is a K80's; it is 1.63x on a P100 and "
      "1.60x on a V100. In 8 MiB the paper finds none, in 512 MiB hardly any on K80 and P100.",
      "The paper's workspaces: 2.87 GiB undivided in 512 MiB, 0.70 GiB with all in 64 MiB.",
      kGroupsNote};
  return report;
}

absl::StatusOr<PaperReport> Figure10(const PaperRun& run) {
  PaperReport report;
  PaperTable table = {.title = run.small ? "the second convolution" : "conv2 forward in 64 MiB"};
  PaperChart chart = {.title = table.title, .y_label = "ms", .series = {{.name = "time"}}};
  std::optional<double> undivided, last;
  for (const auto& [name, divisions] : {std::pair("undivided", DivisionPolicy::kUndivided),
                                        {"powerOfTwo", DivisionPolicy::kPowerOfTwo},
                                        {"all", DivisionPolicy::kAll}}) {
    ConvBenchRequest request = AlexNet(run, divisions, {64});
    request.forward_only = true;
    ASSIGN_OR_RETURN(const ConvBenchReport measured, MeasuredConvolutions(run, std::move(request)));
    report.setting = SettingOf(measured);
    ASSIGN_OR_RETURN(const ConvTimes* const second, SecondForward(measured.result));
    const std::optional<TimedConfiguration>& chosen = second->at_limits[0].divided;
    if (!chosen.has_value()) continue;
    const double seconds = chosen->seconds.best_known();
    if (!undivided.has_value()) undivided = seconds;
    last = seconds;
    table.figures.push_back(
        Milliseconds(absl::StrCat(name, ": ", ToString(chosen->configuration.parts)), seconds));
    table.figures.push_back(Workspace(
        absl::StrCat("workspace, ", name), chosen->configuration.workspace_bytes,
        std::string(name) == "powerOfTwo" ? Published(run, 48.9) : std::optional<double>()));
    chart.x.emplace_back(name);
    chart.series[0].values.emplace_back(1e3 * seconds);
  }
  if (last.has_value())
    table.figures.push_back(Faster("speedup of all", *undivided / *last, Published(run, 2.33)));
  report.tables = {std::move(table)};
  report.charts = {std::move(chart)};
  report.notes = {
      "In the paper, on a P100, cuDNN takes GEMM with 4.3 KiB, powerOfTwo FFT in parts of 32 "
      "images where 256 would need 213 MiB, and all also Winograd.",
      kGroupsNote};
  return report;
}

}  // namespace neap::apps::ucudnn
