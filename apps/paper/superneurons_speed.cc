// SuperNeurons, Tables 2 and 3 and Figures 2, 11, 12 and 14: what moves, and how fast it is.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/bench/pool_comparison.h"
#include "apps/bench/workspace_comparison.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/outcome.h"
#include "apps/paper/paper_gpus.h"
#include "apps/paper/paper_planning.h"
#include "apps/paper/superneurons.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/nets/registry.h"

namespace neap::apps::superneurons {
namespace {

// The networks of Tables 2 and 5 and of Figures 2, 11 and 14, with batches that fit 12 GiB whole.
struct Net {
  const char* name;
  int64_t batch;
};
constexpr Net kNets[] = {{"alexnet", 256}, {"vgg16", 32},     {"inception_v4", 32},
                         {"resnet50", 32}, {"resnet101", 32}, {"resnet152", 32}};
constexpr Net kSmallNets[] = {{"lenet", 4}, {"resnet20", 2}};

std::vector<Net> NetsOf(const PaperRun& run) {
  if (run.small) return {std::begin(kSmallNets), std::end(kSmallNets)};
  return {std::begin(kNets), std::end(kNets)};
}

std::string TitleOf(const Net& net) { return absl::StrCat(net.name, ", batch ", net.batch); }

// The paper's values for a network. kPoolRows has the order of kNets.
struct PoolRow {
  double cuda, ours, speedup;
};
constexpr std::array<PoolRow, std::size(kNets)> kPoolRows = {{{359.4, 401.6, 1.12},
                                                              {12.1, 14.4, 1.19},
                                                              {6.77, 10.0, 1.48},
                                                              {21.5, 32.9, 1.53},
                                                              {11.3, 18.95, 1.68},
                                                              {7.46, 13.2, 1.77}}};

struct Communication {
  int64_t batch;
  double without, with;  // GB
};
constexpr Communication kCommunications[] = {{256, 2.56, 0}, {384, 3.72, 0}, {512, 4.88, 0},
                                             {640, 6.03, 0}, {896, 8.35, 0}, {1024, 9.50, 0.88}};

PaperFigure Speed(const std::string& what, std::optional<double> ours,
                  std::optional<double> paper = {}) {
  return {.what = what, .paper = paper, .ours = ours, .decimals = 2, .unit = "images/s"};
}

// GB copied in an iteration, in both directions.
double GigabytesMoved(const Plan& plan) {
  const Movement movement = TotalMovement(plan);
  return static_cast<double>(movement.offloaded_bytes + movement.prefetched_bytes) / 1e9;
}

// The largest workspace of each step's preferred engine, each with bytes of its own.
int64_t WorkspacesOf(const Plan& plan) {
  int64_t bytes = 0;
  for (const Action& action : plan.actions) {
    const auto* const compute = std::get_if<ComputeAction>(&action);
    if (compute != nullptr && compute->workspace.has_value()) bytes += compute->workspace->bytes;
  }
  return bytes;
}

// Speeds under one policy at rising batches: Figure 14.
struct Batches {
  const char* net;
  std::vector<int64_t> batches;
};
std::vector<Batches> BatchesOf(const PaperRun& run) {
  if (run.small) return {{"lenet", {2, 4}}, {"alexnet", {64, 1024}}};
  return {{"alexnet", {128, 256, 512, 768, 1024, 1408, 1792}},
          {"vgg16", {16, 32, 48, 64, 80, 128, 224}},
          {"inception_v4", {8, 16, 32, 64, 128, 240}},
          {"resnet50", {16, 32, 64, 128, 256, 384}},
          {"resnet101", {16, 32, 48, 80, 128, 256}},
          {"resnet152", {16, 32, 48, 80, 128, 176}}};
}

struct Speeds {
  std::optional<double> predicted, measured;
};

absl::StatusOr<Speeds> SpeedOf(const Graph& graph, const PlannerOptions& options,
                               const PlanTarget& target, int64_t steps) {
  Speeds speeds;
  ASSIGN_OR_RETURN(const std::optional<Planned> planned, PlanIfItFits(graph, {}, options, target));
  if (!planned.has_value()) return speeds;
  speeds.predicted = planned->images_per_second();
  ASSIGN_OR_RETURN(speeds.measured, MeasuredSpeed(graph, options, target, steps));
  return speeds;
}

absl::StatusOr<PlanTarget> OpenToTrain(const PaperRun& run) {
  ASSIGN_OR_RETURN(PlanTarget target, OpenPaperTarget(run, TeslaK40c()));
  if (!CanTrain(target)) {
    return BadUsage(absl::StrCat("--device ", run.device,
                                 " is only described: speeds are measured on cpu or cuda:N"));
  }
  return target;
}

constexpr char kPredicted[] = ", predicted", kMeasured[] = ", measured";

}  // namespace

absl::StatusOr<PaperReport> Table2(const PaperRun& run) {
  ASSIGN_OR_RETURN(const PlanTarget target, OpenToTrain(run));
  PaperReport report = {.setting = absl::StrCat("fp32, policy liveness, median of ", run.steps,
                                                " steps, on ", target.description.name)};
  const std::vector<Net> nets = NetsOf(run);
  for (size_t i = 0; i < nets.size(); ++i) {
    ASSIGN_OR_RETURN(const Graph graph, nets::Build(nets[i].name, {.batch = nets[i].batch}));
    ASSIGN_OR_RETURN(const PoolComparison pool,
                     ComparePool(graph, *target.device,
                                 {.policy = "liveness",
                                  .strict = target.description.kind == "cpu",
                                  .kernels = target.kernels},
                                 run.steps));
    std::optional<PoolRow> row;
    if (!run.small) row = kPoolRows[i];
    const auto published = [&](double PoolRow::*field) {
      return row.has_value() ? std::optional<double>((*row).*field) : std::nullopt;
    };
    PaperTable table = {.title = TitleOf(nets[i])};
    table.figures = {
        Speed("cudaMalloc and cudaFree", pool.ImagesPerSecond(pool.separate_seconds),
              published(&PoolRow::cuda)),
        Speed("memory pool", pool.ImagesPerSecond(pool.pool_seconds), published(&PoolRow::ours)),
        {.what = "speedup",
         .paper = published(&PoolRow::speedup),
         .ours = pool.speedup(),
         .decimals = 2,
         .unit = "x"},
        Speed("memory pool, kernels replayed as CUDA graphs",
              pool.ImagesPerSecond(pool.replayed_seconds)),
        {.what = "allocations in a step", .ours = static_cast<double>(pool.allocations)}};
    report.tables.push_back(std::move(table));
  }
  report.notes = {
      "The paper does not state its batches. Its speeds are a K40c's; what compares is the "
      "speedup."};
  return report;
}

absl::StatusOr<PaperReport> Table3(const PaperRun& run) {
  ASSIGN_OR_RETURN(const PlanTarget target, OpenPaperTarget(run, TeslaK40c()));
  PaperReport report = {.setting = absl::StrCat("AlexNet, fp32, ", FormatBytes(kBudget),
                                                " for everything, ", TargetText(target))};
  for (const Communication& row : kCommunications) {
    if (run.small && row.batch != 256 && row.batch != 1024) continue;
    ASSIGN_OR_RETURN(const Graph graph, nets::Build("alexnet", {.batch = row.batch}));
    PaperTable table = {.title = absl::StrCat("batch ", row.batch)};
    const auto add = [&](const char* what, const char* policy, double paper) -> absl::Status {
      ASSIGN_OR_RETURN(
          const std::optional<Planned> planned,
          PlanIfItFits(graph, {}, {.budget_bytes = kBudget, .policy = policy}, target));
      std::optional<double> moved;
      if (planned.has_value()) moved = GigabytesMoved(planned->result.plan);
      table.figures.push_back(
          {.what = what, .paper = paper, .ours = moved, .decimals = 2, .unit = "GB"});
      return absl::OkStatus();
    };
    RETURN_IF_ERROR(add("without tensor cache", "offload", row.without));
    RETURN_IF_ERROR(add("tensor cache", "tensor-cache", row.with));
    report.tables.push_back(std::move(table));
  }
  report.notes = {
      "The paper's table does not name its network; AlexNet is the only one of its networks that "
      "reaches batch 1024 in 12 GB (Table 5). The paper's figures rise by 9.07 MB an image; the "
      "outputs of AlexNet's convolutions, there and back, are 5.2 MB in its 23 layers.",
      "neap copies what backward reads of a convolution's output: where that is the ReLU behind "
      "it, "
      "nothing else."};
  return report;
}

absl::StatusOr<PaperReport> Figure2(const PaperRun& run) {
  ASSIGN_OR_RETURN(const PlanTarget target, OpenToTrain(run));
  PaperReport report = {.setting =
                            absl::StrCat("fp32, every tensor with bytes of its own, speeds of ",
                                         run.steps, " steps on ", target.description.name)};
  PaperChart memory = {.title = "memory",
                       .y_label = "GiB",
                       .series = {{.name = "tensors"}, {.name = "with workspaces"}}};
  PaperChart speed = {.title = "speed",
                      .y_label = "images/s",
                      .series = {{.name = "without workspaces"}, {.name = "with workspaces"}}};
  for (const Net& net : NetsOf(run)) {
    ASSIGN_OR_RETURN(const Graph graph, nets::Build(net.name, {.batch = net.batch}));
    ASSIGN_OR_RETURN(const Planned planned,
                     PlanNetwork(graph, {}, {.policy = "keep-all", .in_place = false}, target));
    const int64_t tensors = BytesOfAllTensors(planned.program);
    const int64_t with = tensors + WorkspacesOf(planned.result.plan);
    ASSIGN_OR_RETURN(
        const std::optional<double> slow,
        MeasuredSpeed(graph, {.policy = "liveness", .kernels = {.workspace_limit_bytes = 0}},
                      target, run.steps));
    ASSIGN_OR_RETURN(const std::optional<double> fast,
                     MeasuredSpeed(graph, {.policy = "liveness"}, target, run.steps));
    std::optional<double> published;  // GB, "at only the batch size of 32"
    if (!run.small && std::string(net.name) == "resnet152") published = 18.5e9 / kGiB;
    if (!run.small && std::string(net.name) == "inception_v4") published = 44.3e9 / kGiB;
    report.tables.push_back({.title = TitleOf(net),
                             .figures = {{.what = "memory of tensors",
                                          .ours = InGibibytes(tensors),
                                          .decimals = 2,
                                          .unit = "GiB"},
                                         {.what = "memory with workspaces",
                                          .paper = published,
                                          .ours = InGibibytes(with),
                                          .decimals = 2,
                                          .unit = "GiB"},
                                         Speed("without workspaces", slow),
                                         Speed("with workspaces", fast)}});
    for (PaperChart* chart : {&memory, &speed}) chart->x.emplace_back(net.name);
    memory.series[0].values.emplace_back(InGibibytes(tensors));
    memory.series[1].values.emplace_back(InGibibytes(with));
    speed.series[0].values.push_back(slow);
    speed.series[1].values.push_back(fast);
  }
  report.charts = {std::move(memory), std::move(speed)};
  report.notes = {
      "The text gives 18.5 GB for ResNet-152 and 44.3 GB for Inception v4 at batch 32; "
      "the other values are only drawn."};
  return report;
}

absl::StatusOr<PaperReport> Figure11(const PaperRun& run) {
  ASSIGN_OR_RETURN(const PlanTarget target, OpenPaperTarget(run, TeslaK40c()));
  PaperReport report = {.setting = absl::StrCat("fp32, ", FormatBytes(kBudget), " for everything, ",
                                                TargetText(target))};
  PaperChart chart = {.title = "speed without tensor cache, as part of that with it",
                      .y_label = "%",
                      .series = {{.name = "predicted"}, {.name = "measured"}}};
  double most = 0;
  for (const Net& net : NetsOf(run)) {
    ASSIGN_OR_RETURN(const Graph graph, nets::Build(net.name, {.batch = net.batch}));
    ASSIGN_OR_RETURN(
        const Speeds without,
        SpeedOf(graph, {.budget_bytes = kBudget, .policy = "offload"}, target, run.steps));
    ASSIGN_OR_RETURN(
        const Speeds with,
        SpeedOf(graph, {.budget_bytes = kBudget, .policy = "tensor-cache"}, target, run.steps));
    PaperTable table = {.title = TitleOf(net)};
    const auto add = [&](std::optional<double> Speeds::*side, const char* how, size_t series) {
      chart.series[series].values.emplace_back();
      if (!(without.*side).has_value() || !(with.*side).has_value()) return;
      const double loss = 100 * (1 - *(without.*side) / *(with.*side));
      most = std::max(most, loss);
      chart.series[series].values.back() = 100 - loss;
      table.figures.push_back(Speed(absl::StrCat("without tensor cache", how), without.*side));
      table.figures.push_back(Speed(absl::StrCat("tensor cache", how), with.*side));
      table.figures.push_back(
          {.what = absl::StrCat("loss without", how), .ours = loss, .decimals = 2, .unit = "%"});
    };
    add(&Speeds::predicted, kPredicted, 0);
    add(&Speeds::measured, kMeasured, 1);
    chart.x.emplace_back(net.name);
    report.tables.push_back(std::move(table));
  }
  if (!CanTrain(target)) chart.series.pop_back();
  report.tables.push_back({.title = "all networks",
                           .figures = {{.what = "largest loss without",
                                        .paper = 33.33,
                                        .ours = most,
                                        .decimals = 2,
                                        .unit = "%"}}});
  report.charts = {std::move(chart)};
  report.notes = {
      "Where the network fits, the tensor cache moves nothing, and offloading costs what "
      "computation does not hide. The paper draws the speeds; its text gives the largest loss."};
  return report;
}

absl::StatusOr<PaperReport> Figure12(const PaperRun& run) {
  if (run.device.empty()) return BadUsage("sn-fig12: --database needs --device, such as h200");
  ASSIGN_OR_RETURN(const PlanTarget target, OpenPaperTarget(run, TeslaK40c()));
  WorkspaceBenchOptions options;
  NetFlags net = {.name = "alexnet"};
  if (run.small) {
    net.name = "lenet";
    options = {.budgets_bytes = {64 * kMiB}, .batches = {2, 4}, .limits_bytes = {kMiB}};
  }
  TrainByPlan train;
  if (CanTrain(target)) {
    train = [&](const Graph& graph, const PlannerOptions& planned) -> absl::StatusOr<double> {
      ASSIGN_OR_RETURN(const std::optional<double> speed,
                       MeasuredSpeed(graph, planned, target, run.steps));
      return speed.has_value() ? absl::StatusOr<double>(*speed)
                               : absl::ResourceExhaustedError("no room on the device");
    };
  }
  WorkspaceBench bench(options, net, target, std::move(train));
  ASSIGN_OR_RETURN(const std::vector<WorkspaceRun> runs,
                   bench.Run([](const WorkspaceRun& /*next*/) { return !Interrupted(); }));
  if (Interrupted()) return absl::CancelledError("stopped");
  PaperReport report = {
      .setting = absl::StrCat(net.name, ", fp32, policy superneurons, ", TargetText(target))};
  PaperChart chart = {.title = "speed by batch and pool", .y_label = "images/s", .lines = true};
  for (const int64_t batch : options.batches) chart.x.push_back(absl::StrCat(batch));
  for (const WorkspaceRun& one : runs) {
    if (one.rule != bench.Rules().front() || !one.speed.has_value()) continue;
    const std::string pool = FormatBytes(one.budget_bytes);
    int64_t most = 0;
    for (const WorkspaceStep& step : one.steps) most = std::max(most, step.workspace_bytes);
    PaperTable table = {.title = absl::StrCat("pool of ", pool, ", batch ", one.batch)};
    table.figures = {
        Speed("speed, predicted", one.speed->predicted),
        Speed("speed, measured", one.speed->measured),
        {.what = "largest workspace", .ours = InMebibytes(most), .decimals = 2, .unit = "MiB"}};
    for (const WorkspaceStep& step : one.steps) {
      table.figures.push_back(
          {.what = absl::StrCat("workspace of ", step.layer, " ", std::string(Name(step.phase))),
           .ours = InMebibytes(step.workspace_bytes),
           .decimals = 2,
           .unit = "MiB"});
    }
    report.tables.push_back(std::move(table));
    if (chart.series.empty() || chart.series.back().name != pool)
      chart.series.push_back({.name = pool});
    chart.series.back().values.emplace_back(one.speed->measured.value_or(one.speed->predicted));
  }
  report.charts = {std::move(chart)};
  report.notes = {
      "In the paper speed rises from 203 to 240 images/s with additional workspace. At batch 300 "
      "in 3 GB its tensors take what workspaces had at batch 100; the sizes are only drawn.",
      "neap bench workspace alexnet has the same with every rule that chooses workspaces."};
  return report;
}

absl::StatusOr<PaperReport> Figure14(const PaperRun& run) {
  ASSIGN_OR_RETURN(const PlanTarget target, OpenPaperTarget(run, TeslaK40c()));
  PaperReport report = {.setting = absl::StrCat("fp32, policy superneurons, ", FormatBytes(kBudget),
                                                " for everything, ", TargetText(target))};
  for (const Batches& net : BatchesOf(run)) {
    PaperTable table = {.title = net.net};
    PaperChart chart = {.title = net.net, .y_label = "images/s", .lines = true};
    ChartSeries predicted = {.name = "predicted"}, measured = {.name = "measured"};
    for (const int64_t batch : net.batches) {
      ASSIGN_OR_RETURN(const Graph graph, nets::Build(net.net, {.batch = batch}));
      ASSIGN_OR_RETURN(
          const Speeds speeds,
          SpeedOf(graph, {.budget_bytes = kBudget, .policy = "superneurons"}, target, run.steps));
      table.figures.push_back(Speed(absl::StrCat("batch ", batch, kPredicted), speeds.predicted));
      if (CanTrain(target))
        table.figures.push_back(Speed(absl::StrCat("batch ", batch, kMeasured), speeds.measured));
      chart.x.push_back(absl::StrCat(batch));
      predicted.values.push_back(speeds.predicted);
      measured.values.push_back(speeds.measured);
    }
    chart.series = {std::move(predicted)};
    if (CanTrain(target)) chart.series.push_back(std::move(measured));
    report.tables.push_back(std::move(table));
    report.charts.push_back(std::move(chart));
  }
  report.notes = {
      "The paper draws these speeds beside four frameworks'. Its text: speed falls slowly as the "
      "batch grows, because more is copied."};
  return report;
}

}  // namespace neap::apps::superneurons
