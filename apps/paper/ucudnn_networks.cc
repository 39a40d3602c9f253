// u-cuDNN, Figures 11 and 12, Table V and the integer programs: whole networks.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/cli/kernel_flags.h"
#include "apps/cli/measured_device.h"
#include "apps/cli/outcome.h"
#include "apps/paper/paper_planning.h"
#include "apps/paper/ucudnn.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/nets/registry.h"

namespace neap::apps::ucudnn {
namespace {

PaperFigure Ms(const std::string& what, std::optional<double> seconds,
               std::optional<double> paper_ms = {}) {
  PaperFigure figure = {.what = what, .paper = paper_ms, .decimals = 3, .unit = "ms"};
  if (seconds.has_value()) figure.ours = 1e3 * *seconds;
  return figure;
}

PaperFigure Gain(const std::string& what, std::optional<double> ours,
                 std::optional<double> paper = {}) {
  return {.what = what, .paper = paper, .ours = ours, .decimals = 2, .unit = "x"};
}

std::optional<double> BestKnown(const std::optional<ConvSeconds>& seconds) {
  if (!seconds.has_value()) return std::nullopt;
  return seconds->best_known();
}

// A network whose workspaces are divided, in totals that give each kernel so many units on average.
struct Divided {
  std::string title;
  ConvBenchRequest request;
  std::vector<int64_t> each;
  int64_t kernels = 0;  // counting equal ones
};

std::vector<Divided> DividedNets(const PaperRun& run) {
  std::vector<Divided> nets = {{.title = run.small ? "LeNet, batch 4" : "AlexNet, batch 256",
                                .request = AlexNet(run, DivisionPolicy::kAll, {8, 64, 512}),
                                .each = {8, 64, 512}}};
  if (run.small) return nets;
  ConvBenchRequest resnet = {.net = NetAt("resnet50", 32),
                             .bench = {.limits_bytes = {16 * kMiB, 32 * kMiB}}};
  nets.push_back({.title = "ResNet-50, batch 32", .request = std::move(resnet), .each = {16, 32}});
  return nets;
}

// WD in this total.
absl::StatusOr<ConvBenchReport> DivideAmong(const PaperRun& run, ConvBenchRequest request,
                                            std::optional<int64_t> total_bytes) {
  request.bench.total_bytes = total_bytes;
  return MeasuredConvolutions(run, std::move(request));
}

// Table V.
struct Iterations {
  const char* title;
  NetFlags net;
  double undivided, power, all;  // ms
};

std::vector<Iterations> IterationsOf(const PaperRun& run) {
  if (run.small) return {{"LeNet, batch 4", NetAt("lenet", 4), 0, 0, 0}};
  NetFlags densenet = NetAt("densenet-cifar", 256);
  densenet.options.depth = 40;
  densenet.options.growth_rate = 40;
  return {
      {"AlexNet, batch 256", NetAt("alexnet-torchvision", 256), 229.0, 186.0, 185.0},
      {"ResNet-50, batch 64", NetAt("resnet50", 64), 318.0, 302.0, 302.0},
      {"DenseNet-40 with 40 maps a layer, batch 256", std::move(densenet), 639.0, 579.0, 574.0}};
}

struct DivisionName {
  const char* name;
  DivisionPolicy divisions;
  double Iterations::*paper;
};
constexpr DivisionName kDivisions[] = {
    {"undivided", DivisionPolicy::kUndivided, &Iterations::undivided},
    {"powerOfTwo", DivisionPolicy::kPowerOfTwo, &Iterations::power},
    {"all", DivisionPolicy::kAll, &Iterations::all}};

// The seconds of an iteration with these parts and this workspace: measured if the device is here.
absl::StatusOr<double> IterationSeconds(const PaperRun& run, const Graph& graph,
                                        DivisionPolicy divisions, PlanTarget& target) {
  target.kernels.divisions = divisions;
  const PlannerOptions options = {.policy = "liveness",
                                  .kernels = {.workspace_limit_bytes = 64 * UnitOf(run)}};
  const auto images = static_cast<double>(graph.options().batch);
  ASSIGN_OR_RETURN(const std::optional<double> speed,
                   MeasuredSpeed(graph, options, target, run.steps));
  if (speed.has_value()) return images / *speed;
  ASSIGN_OR_RETURN(const Planned planned, PlanNetwork(graph, {}, options, target));
  return planned.result.plan.predicted_ms / 1e3;
}

absl::StatusOr<PaperTable> TableOf(const PaperRun& run, const Iterations& row, bool all_parts) {
  ConvBenchRequest request = {.net = row.net, .bench = {.limits_bytes = {64 * UnitOf(run)}}};
  if (all_parts) request.measuring.options.divisions = DivisionPolicy::kAll;
  ASSIGN_OR_RETURN(const ConvBenchReport convolutions,
                   MeasuredConvolutions(run, std::move(request)));
  const KernelFlags kernels = {.database = run.database};
  ASSIGN_OR_RETURN(PlanTarget target, OpenPlanTargetBy(kernels, run.device, /*peer=*/""));
  NetFlags net = row.net;
  ASSIGN_OR_RETURN(const Graph graph, net.Build());
  PaperTable table = {.title = row.title};
  std::optional<double> undivided;
  for (const DivisionName& each : kDivisions) {
    if (each.divisions == DivisionPolicy::kAll && !all_parts) continue;
    ASSIGN_OR_RETURN(const double seconds, IterationSeconds(run, graph, each.divisions, target));
    if (!undivided.has_value()) undivided = seconds;
    const double paper_ms = row.*each.paper;
    table.figures.push_back(
        Ms(absl::StrCat("iteration, ", each.name), seconds, Published(run, paper_ms)));
    if (each.divisions == DivisionPolicy::kUndivided) continue;
    table.figures.push_back(Gain(absl::StrCat("speedup of ", each.name), *undivided / seconds,
                                 Published(run, row.undivided / paper_ms)));
  }
  const LimitTotal& total = convolutions.result.totals[0];
  table.figures.push_back(Gain("speedup of the convolutions alone", total.speedup()));
  return table;
}

// Adds the table, or why there is none, if the database lacks kernels of this network.
absl::Status AddTable(const std::string& title, absl::StatusOr<PaperTable> table,
                      PaperReport& report) {
  if (absl::IsNotFound(table.status())) {
    report.notes.push_back(absl::StrCat(title, ": ", std::string(table.status().message())));
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(table.status());
  report.tables.push_back(*std::move(table));
  return absl::OkStatus();
}

absl::StatusOr<PaperReport> WithAnyTable(PaperReport report) {
  if (!report.tables.empty()) return report;
  return absl::NotFoundError(report.notes.back());
}

// The largest front of the kernels.
double LargestFront(const ConvBenchResult& result) {
  size_t most = 0;
  for (const ConvTimes& times : result.kernels) most = std::max(most, times.front.size());
  return static_cast<double>(most);
}

PaperFigure Count(const std::string& what, double ours, std::optional<double> paper = {}) {
  return {.what = what, .paper = paper, .ours = ours};
}

}  // namespace

absl::StatusOr<PaperReport> Figure11(const PaperRun& run) {
  PaperReport report;
  for (const Divided& net : DividedNets(run)) {
    PaperChart chart = {.title = absl::StrCat(net.title, ", time of all convolutions"),
                        .y_label = "ms",
                        .series = {{.name = "undivided"}, {.name = "WR"}, {.name = "WD"}}};
    for (size_t i = 0; i < net.each.size(); ++i) {
      ASSIGN_OR_RETURN(const ConvBenchReport first, DivideAmong(run, net.request, std::nullopt));
      const int64_t kernels = first.result.workspace->kernels;
      const int64_t total_bytes = net.each[i] * UnitOf(run) * kernels;
      ASSIGN_OR_RETURN(const ConvBenchReport report_of_total,
                       DivideAmong(run, net.request, total_bytes));
      const WorkspaceComparison& workspace = *report_of_total.result.workspace;
      if (!report.setting.empty() && i == 0) absl::StrAppend(&report.setting, "; ");
      if (i == 0) absl::StrAppend(&report.setting, SettingOf(report_of_total));
      const std::optional<double> undivided =
          report_of_total.result.totals[i].undivided.best_known();
      const std::optional<double> divided = BestKnown(workspace.divided);
      std::optional<double> over_undivided;
      if (divided.has_value()) over_undivided = *undivided / *divided;
      // The paper's figures are for AlexNet's convolutions in 120 MiB, and ResNet-50's in 2,544.
      const bool is_published = net.each[i] == (net.each.size() == 3 ? 8 : 16);
      const double paper = net.each.size() == 3 ? 1.38 : 1.14;
      report.tables.push_back(
          {.title = absl::StrCat(net.title, ", ", FormatBytes(total_bytes), " for ", kernels,
                                 " kernels"),
           .figures = {Ms("undivided, an equal part for each", undivided),
                       Ms("WR, an equal part for each", BestKnown(workspace.separate)),
                       Ms("WD", divided), Gain("speedup of WD over WR", workspace.speedup()),
                       Gain("speedup of WD over undivided", over_undivided,
                            is_published ? Published(run, paper) : std::optional<double>())}});
      chart.x.push_back(FormatBytes(total_bytes));
      chart.series[0].values.push_back(1e3 * *undivided);
      const std::optional<double> separate = BestKnown(workspace.separate);
      chart.series[1].values.push_back(separate.has_value() ? std::optional(1e3 * *separate)
                                                            : std::nullopt);
      chart.series[2].values.push_back(divided.has_value() ? std::optional(1e3 * *divided)
                                                           : std::nullopt);
    }
    report.charts.push_back(std::move(chart));
  }
  report.notes = {
      "The published speedups are those of the convolutions on a P100: AlexNet with all in 120 "
      "MiB, ResNet-50 in 2,544 MiB. neap's equal part for ResNet-50 is 16 and 32 MiB for each "
      "kernel.",
      "neap's plans do not divide one workspace among kernels: its steps run one after another on "
      "one stream and take turns in the free bytes of the arena, so each can have all of them."};
  return report;
}

absl::StatusOr<PaperReport> Figure12(const PaperRun& run) {
  ConvBenchRequest request = AlexNet(run, DivisionPolicy::kAll, {8});
  ASSIGN_OR_RETURN(const ConvBenchReport first, DivideAmong(run, request, std::nullopt));
  const int64_t total_bytes = 8 * UnitOf(run) * first.result.workspace->kernels;
  ASSIGN_OR_RETURN(const ConvBenchReport measured, DivideAmong(run, request, total_bytes));
  const WorkspaceComparison& workspace = *measured.result.workspace;
  PaperReport report = {
      .setting = absl::StrCat(SettingOf(measured), ", ", FormatBytes(total_bytes), " in total")};
  PaperChart chart = {.title = "workspace of each kernel",
                      .y_label = "MiB",
                      .series = {{.name = "WR"}, {.name = "WD"}}};
  std::map<std::string, int64_t> of_layers;
  PaperTable table = {.title = "segments"};
  for (const WorkspaceSegment& segment : workspace.segments) {
    const ConvTimes& times = measured.result.kernels[segment.kernel];
    const int64_t bytes = segment.timed.configuration.workspace_bytes;
    const std::optional<TimedConfiguration>& reused = times.at_limits[0].divided;
    of_layers[times.kernel.name] += bytes;
    table.figures.push_back({.what = absl::StrCat(NameOf(times.kernel), ": ",
                                                  ToString(segment.timed.configuration.parts)),
                             .ours = InMebibytes(bytes),
                             .decimals = 3,
                             .unit = "MiB"});
    chart.x.push_back(NameOf(times.kernel));
    chart.series[0].values.push_back(
        reused.has_value() ? std::optional(InMebibytes(reused->configuration.workspace_bytes))
                           : std::nullopt);
    chart.series[1].values.emplace_back(InMebibytes(bytes));
  }
  report.tables = {std::move(table)};
  const auto used = static_cast<double>(std::max<int64_t>(workspace.used_bytes, 1));
  const double middle = static_cast<double>(of_layers["conv2"] + of_layers["conv3"]);
  report.tables.push_back({.title = "all kernels",
                           .figures = {{.what = "workspace used",
                                        .ours = InMebibytes(workspace.used_bytes),
                                        .decimals = 2,
                                        .unit = "MiB"},
                                       {.what = "part of conv2 and conv3",
                                        .paper = Published(run, 93.7),
                                        .ours = 100 * middle / used,
                                        .decimals = 1,
                                        .unit = "%"}}});
  report.charts = {std::move(chart)};
  report.notes = {
      "In the paper conv4 and conv5 get no more than 3 MiB each. Its AlexNet is Caffe's, with "
      "groups in the second, fourth and fifth convolution."};
  return report;
}

absl::StatusOr<PaperReport> Table5(const PaperRun& run) {
  if (run.device.empty()) return BadUsage("uc-table5: --database needs --device, such as h200");
  PaperReport report = {
      .setting = absl::StrCat("fp32, ", FormatBytes(64 * UnitOf(run)),
                              " of workspace for each kernel, policy liveness, on ", run.device)};
  report.notes = {
      "The published times are those of TensorFlow 1.4.1 on a P100. AlexNet is the network's "
      "second version, as in torchvision. For the other two neap measures parts of powers of two "
      "only.",
      "Iterations are trained if the device is here, else predicted from the database."};
  for (const Iterations& row : IterationsOf(run)) {
    const bool all_parts = run.small || row.net.name.starts_with("alexnet");
    RETURN_IF_ERROR(AddTable(row.title, TableOf(run, row, all_parts), report));
  }
  return WithAnyTable(std::move(report));
}

absl::StatusOr<PaperReport> IntegerPrograms(const PaperRun& run) {
  struct Row {
    std::string title;
    ConvBenchRequest request;
    std::optional<int64_t> total_bytes;
    std::optional<double> variables, ms, front;
  };
  std::vector<Row> rows = {{.title = run.small ? "LeNet, batch 4" : "AlexNet, batch 256",
                            .request = AlexNet(run, DivisionPolicy::kAll, {512}),
                            .front = Published(run, 68)}};
  if (!run.small) {
    rows.push_back(
        {.title = "ResNet-50, batch 32",
         .request = {.net = NetAt("resnet50", 32), .bench = {.limits_bytes = {32 * kMiB}}},
         .total_bytes = 5088 * kMiB,
         .variables = 562,
         .ms = 5.46});
    rows.push_back(
        {.title = "ResNet-152, batch 128",
         .request = {.net = NetAt("resnet152", 128), .bench = {.limits_bytes = {32 * kMiB}}},
         .ms = 716});
  }
  PaperReport report = {.setting =
                            "0-1 programs of WD, with one variable for each kernel and "
                            "desirable configuration"};
  report.notes = {
      "The paper solves its programs with GLPK; neap's branch and bound stops at a proven gap of "
      "0.001% (layers/conv/workspace_division.h)."};
  const auto table_of = [&](Row& row) -> absl::StatusOr<PaperTable> {
    ASSIGN_OR_RETURN(const ConvBenchReport measured,
                     DivideAmong(run, std::move(row.request), row.total_bytes));
    const WorkspaceComparison& workspace = *measured.result.workspace;
    return PaperTable{
        .title = absl::StrCat(row.title, ", ", FormatBytes(workspace.total_bytes)),
        .figures = {
            Count("kernels", static_cast<double>(workspace.kernels)),
            Count("variables", static_cast<double>(workspace.variables), row.variables),
            Count("largest front of a kernel", LargestFront(measured.result), row.front),
            {.what = "time of the solver",
             .paper = row.ms,
             .ours = 1e3 * workspace.solver_seconds,
             .decimals = 2,
             .unit = "ms"},
            {.what = "proven gap", .ours = 100 * workspace.gap, .decimals = 4, .unit = "%"}}};
  };
  for (Row& row : rows) RETURN_IF_ERROR(AddTable(row.title, table_of(row), report));
  return WithAnyTable(std::move(report));
}

}  // namespace neap::apps::ucudnn
