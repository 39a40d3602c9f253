#include "apps/paper/cudnn.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/bench/conv_set.h"
#include "apps/paper/paper_gpus.h"
#include "apps/paper/paper_planning.h"
#include "apps/paper/ucudnn.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/nets/registry.h"

namespace neap::apps::cudnn {
namespace {

// Table 2: H and W are equal in every layer, and so are R and S.
struct LayerShape {
  int64_t images, channels, size, maps, kernel;
};
constexpr LayerShape kLayers[] = {{128, 3, 128, 96, 11},
                                  {128, 96, 64, 128, 9},
                                  {128, 128, 32, 128, 9},
                                  {128, 128, 16, 128, 7},
                                  {128, 128, 13, 384, 3}};

// Table 3: TFLOP/s and percent of the peak.
struct Throughput {
  double k40, gtx980, k40_percent, gtx980_percent;
};
constexpr std::array<Throughput, std::size(kLayers)> kThroughputs = {{{0.99, 1.46, 23, 30},
                                                                      {1.52, 2.49, 35, 51},
                                                                      {1.51, 2.42, 35, 49},
                                                                      {1.38, 2.19, 32, 45},
                                                                      {1.01, 1.87, 24, 38}}};

constexpr int64_t kSmallImages = 2, kSmallSize = 16;

// Small layers differ in their maps.
LayerShape ShapeFor(const PaperRun& run, size_t i) {
  if (!run.small) return kLayers[i];
  return {kSmallImages, std::min<int64_t>(kLayers[i].channels, 8), kSmallSize,
          4 + 4 * static_cast<int64_t>(i), kLayers[i].kernel};
}

// The layers as a list of shapes, without padding and with a stride of 1.
std::string ShapeList(const PaperRun& run) {
  std::string csv = "source,W,H,C_in,N,C_out,kernel_w,kernel_h,pad_w,pad_h,stride_w,stride_h\n";
  for (size_t i = 0; i < std::size(kLayers); ++i) {
    const LayerShape shape = ShapeFor(run, i);
    absl::StrAppendFormat(&csv, "layer,%d,%d,%d,%d,%d,%d,%d,0,0,1,1\n", shape.size, shape.size,
                          shape.channels, shape.images, shape.maps, shape.kernel, shape.kernel);
  }
  return csv;
}

// The forward kernels without workspace and in 512 MiB, at the layers' own batch or another.
absl::StatusOr<ConvBenchReport> MeasureLayers(const PaperRun& run, std::optional<int64_t> images) {
  ASSIGN_OR_RETURN(std::vector<ConvKernel> kernels,
                   ReadShapeList(ShapeList(run), {.batch = images}));
  ConvBenchRequest request = {.net = {.name = "the paper's layers"},
                              .kernels = std::move(kernels),
                              .bench = {.limits_bytes = {1, 512 * kMiB}},
                              .forward_only = true};
  request.net.options.batch = images;
  request.measuring.options.divisions = DivisionPolicy::kUndivided;
  return ucudnn::MeasuredConvolutions(run, std::move(request));
}

std::optional<double> TeraflopsAt(const ConvTimes& times, size_t limit) {
  const std::optional<TimedConfiguration>& chosen = times.at_limits[limit].undivided;
  if (!chosen.has_value()) return std::nullopt;
  return times.kernel.Teraflops(chosen->seconds.best_known());
}

PaperFigure Teraflops(const std::string& what, std::optional<double> ours,
                      std::optional<double> paper = {}) {
  return {.what = what, .paper = paper, .ours = ours, .decimals = 3, .unit = "TFLOP/s"};
}

// The mean over the layers under the second limit.
double MeanTeraflops(const ConvBenchResult& result) {
  double sum = 0;
  for (const ConvTimes& times : result.kernels) sum += TeraflopsAt(times, 1).value_or(0);
  return sum / static_cast<double>(result.kernels.size());
}

// The milliseconds of an iteration by phase.
struct PhaseMs {
  double forward = 0, backward = 0, update = 0;
};

PhaseMs PhasesOf(const Planned& planned) {
  PhaseMs ms;
  size_t compute = 0;
  for (const Action& action : planned.result.plan.actions) {
    const auto* const run = std::get_if<ComputeAction>(&action);
    if (run == nullptr) continue;
    const double of_step = 1e3 * planned.result.costs.compute_seconds[compute++];
    const Phase phase = planned.program.steps[run->step.index()].phase;
    if (phase == Phase::kForward) {
      ms.forward += of_step;
    } else if (IsOfLayer(phase)) {
      ms.backward += of_step;
    } else {
      ms.update += of_step;
    }
  }
  return ms;
}

}  // namespace

absl::StatusOr<PaperReport> Table2(const PaperRun& run) {
  ASSIGN_OR_RETURN(const std::vector<ConvKernel> kernels, ReadShapeList(ShapeList(run), {}));
  PaperReport report = {.setting = "without padding, stride 1; arithmetic of the forward kernel"};
  PaperTable table = {.title = "layers"};
  for (const ConvKernel& kernel : kernels) {
    if (kernel.signature.phase != Phase::kForward) continue;
    table.figures.push_back({.what = absl::StrCat(kernel.name, ": ", kernel.Shapes()),
                             .ours = kernel.Flops() / 1e9,
                             .decimals = run.small ? 4 : 2,
                             .unit = "GFLOP"});
  }
  report.tables = {std::move(table)};
  report.notes = {"The paper's table has the shapes alone."};
  return report;
}

absl::StatusOr<PaperReport> Table3(const PaperRun& run) {
  ASSIGN_OR_RETURN(const ConvBenchReport measured, MeasureLayers(run, std::nullopt));
  PaperReport report = {.setting = ucudnn::SettingOf(measured)};
  for (size_t i = 0; i < measured.result.kernels.size(); ++i) {
    const ConvTimes& times = measured.result.kernels[i];
    const Throughput& paper = kThroughputs[i];
    report.tables.push_back(
        {.title = absl::StrCat("layer ", i + 1, ", ", times.kernel.Shapes()),
         .figures = {
             Teraflops("Tesla K40", {}, Published(run, paper.k40)),
             Teraflops("GeForce GTX 980", {}, Published(run, paper.gtx980)),
             {.what = "of the K40's peak", .paper = Published(run, paper.k40_percent), .unit = "%"},
             {.what = "of the GTX 980's peak",
              .paper = Published(run, paper.gtx980_percent),
              .unit = "%"},
             Teraflops("without workspace", TeraflopsAt(times, 0)),
             Teraflops("in 512 MiB", TeraflopsAt(times, 1))}});
  }
  report.notes = {"The peaks are 4.29 and 4.95 TFLOP/s. The paper's kernels use no workspace."};
  return report;
}

absl::StatusOr<PaperReport> Figure2(const PaperRun& run) {
  std::vector<int64_t> batches = {16, 32, 64, 128, 256};
  if (run.small) batches = {1, 2};
  PaperReport report;
  PaperTable table = {.title = "mean of the five layers"};
  PaperChart chart = {.title = "mean throughput by batch",
                      .y_label = "TFLOP/s",
                      .series = {{.name = "neap"}},
                      .lines = true};
  double most = 0;
  std::vector<double> means;
  for (const int64_t images : batches) {
    ASSIGN_OR_RETURN(const ConvBenchReport measured, MeasureLayers(run, images));
    report.setting = ucudnn::SettingOf(measured);
    means.push_back(MeanTeraflops(measured.result));
    most = std::max(most, means.back());
    table.figures.push_back(Teraflops(absl::StrCat("batch ", images), means.back()));
    chart.x.push_back(absl::StrCat(images));
    chart.series[0].values.emplace_back(means.back());
  }
  table.figures.push_back({.what = absl::StrCat("batch ", batches[0], ", of the most"),
                           .paper = Published(run, 86),
                           .ours = 100 * means[0] / most,
                           .unit = "%"});
  report.tables = {std::move(table)};
  report.charts = {std::move(chart)};
  report.notes = {
      "The paper draws cuDNN, Caffe and cuda-convnet2 on a K40. Its text: cuDNN has 0.8 to 2.25 "
      "times the speed of cuda-convnet2 and 1.0 to 1.41 times that of Caffe."};
  return report;
}

absl::StatusOr<PaperReport> Table4(const PaperRun& run) {
  ASSIGN_OR_RETURN(const PlanTarget target, OpenPaperTarget(run, TeslaK40c()));
  constexpr double kIterations = 200;
  const int64_t batch = run.small ? 4 : 256;
  ASSIGN_OR_RETURN(const Graph graph, nets::Build("alexnet", {.batch = batch}));
  ASSIGN_OR_RETURN(const Planned planned, PlanNetwork(graph, {}, {.policy = "liveness"}, target));
  ASSIGN_OR_RETURN(const std::optional<double> speed,
                   MeasuredSpeed(graph, {.policy = "liveness"}, target, run.steps));
  const PhaseMs ms = PhasesOf(planned);
  const auto row = [&](const char* what, double ours, double paper) {
    return PaperFigure{
        .what = what, .paper = Published(run, paper), .ours = kIterations * ours, .unit = "ms"};
  };
  PaperReport report = {.setting = absl::StrCat("AlexNet, batch ", batch,
                                                ", fp32, 200 iterations, ", TargetText(target))};
  PaperTable table = {.title = "Caffe with cuDNN"};
  table.figures = {row("backward propagation", ms.backward, 120651),
                   row("forward propagation", ms.forward, 75330), row("update", ms.update, 2920),
                   row("forward, backward and update", ms.backward + ms.forward + ms.update,
                       120651 + 75330 + 2920)};
  if (speed.has_value()) {
    table.figures.push_back({.what = "training, measured",
                             .ours = kIterations * 1e3 * static_cast<double>(batch) / *speed,
                             .unit = "ms"});
  }
  report.tables = {std::move(table)};
  report.notes = {
      "The paper labels its figures seconds; for 200 iterations of a network whose forward and "
      "backward a K40 computes in about a second they are milliseconds. Without cuDNN Caffe takes "
      "156270, 109310 and 2926; testing (21600 and 14529) is left out.",
      "bvlc_reference_caffenet has groups in three of AlexNet's convolutions, so fewer "
      "multiplications."};
  return report;
}

}  // namespace neap::apps::cudnn

namespace neap::apps {

std::vector<PaperItem> CudnnItems() {
  const std::string paper = "cuDNN";
  return {
      {"cudnn-fig2", paper, "Figure 2", "throughput by batch", PaperNeeds::kTimes, cudnn::Figure2},
      {"cudnn-table2", paper, "Table 2", "the layers that are measured", PaperNeeds::kNothing,
       cudnn::Table2},
      {"cudnn-table3", paper, "Table 3", "throughput of each layer", PaperNeeds::kTimes,
       cudnn::Table3},
      {"cudnn-table4", paper, "Table 4", "200 iterations of Caffe with cuDNN", PaperNeeds::kNothing,
       cudnn::Table4}};
}

}  // namespace neap::apps
