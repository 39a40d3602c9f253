// SuperNeurons, Tables 4 and 5 and Figure 13: how deep and how wide networks can be in 12 GB.
#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/paper/paper_gpus.h"
#include "apps/paper/paper_planning.h"
#include "apps/paper/superneurons.h"
#include "apps/peak/find_peak.h"
#include "apps/peak/growth.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/program/passes.h"
#include "neap/nets/registry.h"

namespace neap::apps::superneurons {
namespace {

constexpr int64_t kSmallBudget = 2 * kGiB, kSmallDepthBudget = 768 * kMiB;
constexpr int64_t kDepthBatch = 16;  // of Table 4

constexpr std::array<const char*, 4> kFrameworks = {"Caffe", "MXNet", "Torch", "TensorFlow"};

struct Peaks {
  const char* net;
  std::array<std::optional<int64_t>, kFrameworks.size()> frameworks;
  int64_t superneurons;
};
// Table 5.
constexpr Peaks kPeaks[] = {{"alexnet", {768, 768, 1024, 1408}, 1792},
                            {"vgg16", {48, 64, 48, 80}, 224},
                            {"inception_v4", {16, std::nullopt, std::nullopt, 64}, 240},
                            {"resnet50", {24, 80, 32, 128}, 384},
                            {"resnet101", {16, 48, 16, 80}, 256},
                            {"resnet152", {16, 32, 16, 48}, 176}};
// Table 4.
constexpr std::array<int64_t, kFrameworks.size()> kDepths = {148, 480, 152, 592};
constexpr double kSuperNeuronsDepth = 1920;
// From the text of section 4.2: the mean over Table 5 of its batch over the second best.
constexpr double kMeanGain = 1.8947;
constexpr double kMaxOverCaffe = 19.8;

int64_t SecondBest(const Peaks& peaks) {
  int64_t most = 0;
  for (const std::optional<int64_t>& batch : peaks.frameworks)
    most = std::max(most, batch.value_or(0));
  return most;
}

PeakFlags FlagsFor(const PaperRun& run, const char* policy) {
  PeakFlags flags;
  flags.planning.budget.bytes = run.small ? kSmallBudget : kBudget;
  flags.planning.policy = policy;
  flags.planning.sub_batches = 1;
  return flags;
}

absl::StatusOr<double> LargestBatch(const PaperRun& run, const PlanTarget& target,
                                    const char* policy, const std::string& net) {
  const PeakFlags flags = FlagsFor(run, policy);
  ASSIGN_OR_RETURN(const PeakResult found, FindPeak(flags, target, GrowingBatch(), net));
  return static_cast<double>(found.batch);
}

absl::StatusOr<double> LargestDepth(const PaperRun& run, const PlanTarget& target,
                                    const char* policy) {
  PeakFlags flags = FlagsFor(run, policy);
  if (run.small) flags.planning.budget.bytes = kSmallDepthBudget;
  flags.net.options.batch = kDepthBatch;
  ASSIGN_OR_RETURN(const Growth depth, GrowingDepth("resnet"));
  ASSIGN_OR_RETURN(const PeakResult found, FindPeak(flags, target, depth, "resnet"));
  return static_cast<double>(found.depth.value_or(0));
}

std::string Setting(int64_t budget_bytes, const PlanTarget& target) {
  return absl::StrCat(FormatBytes(budget_bytes), " for everything, fp32, whole batches, ",
                      TargetText(target));
}

// The size of the whole network, with the input, in the paper's accounting.
absl::StatusOr<double> BytesAt(const std::string& net, int64_t batch, const PlanTarget& target) {
  ASSIGN_OR_RETURN(const Graph graph, nets::Build(net, {.batch = batch}));
  ASSIGN_OR_RETURN(const Program program,
                   Lower(graph, {.accounting = Accounting::kPaper}, target.description));
  return InGibibytes(BytesOfAllTensors(program));
}

}  // namespace

absl::StatusOr<PaperReport> Table4(const PaperRun& run) {
  ASSIGN_OR_RETURN(const PlanTarget target, OpenPaperTarget(run, TeslaK40c()));
  PaperReport report = {.setting =
                            absl::StrCat("ResNet of depth 3(6+32+n+6)+2, batch ", kDepthBatch, ", ",
                                         Setting(run.small ? kSmallDepthBudget : kBudget, target))};
  PaperTable table = {.title = "largest depth"};
  for (size_t i = 0; i < kFrameworks.size(); ++i) {
    table.figures.push_back(
        {.what = kFrameworks[i], .paper = Published(run, static_cast<double>(kDepths[i]))});
  }
  ASSIGN_OR_RETURN(const double reproduced, LargestDepth(run, target, "superneurons"));
  table.figures.push_back(
      {.what = "SuperNeurons", .paper = Published(run, kSuperNeuronsDepth), .ours = reproduced});
  if (!run.small) {
    ASSIGN_OR_RETURN(const double automatic, LargestDepth(run, target, "auto"));
    table.figures.push_back({.what = "policy auto", .ours = automatic});
  }
  report.tables = {std::move(table)};
  report.notes = {
      "neap's row for SuperNeurons is policy superneurons. It evicts any activation, by need, and "
      "reads less in backward, so it goes deeper; parameters, gradients and momentum count in "
      "both. Parameters stay on the device here: with --offload-params depth has no such limit.",
      "The 2500 residual units at batch 1 of the paper's abstract have no entry in its Table 4."};
  return report;
}

absl::StatusOr<PaperReport> Table5(const PaperRun& run) {
  ASSIGN_OR_RETURN(const PlanTarget target, OpenPaperTarget(run, TeslaK40c()));
  PaperReport report = {.setting = Setting(run.small ? kSmallBudget : kBudget, target)};
  double gains = 0;
  int nets = 0;
  for (const Peaks& peaks : kPeaks) {
    if (run.small && nets == 2) break;
    PaperTable table = {.title = absl::StrCat(peaks.net, ", largest batch")};
    for (size_t i = 0; i < kFrameworks.size(); ++i) {
      if (!peaks.frameworks[i].has_value()) continue;
      table.figures.push_back(
          {.what = kFrameworks[i], .paper = Published(run, peaks.frameworks[i])});
    }
    ASSIGN_OR_RETURN(const double reproduced, LargestBatch(run, target, "superneurons", peaks.net));
    table.figures.push_back({.what = "SuperNeurons",
                             .paper = Published(run, static_cast<double>(peaks.superneurons)),
                             .ours = reproduced});
    if (!run.small) {
      ASSIGN_OR_RETURN(const double automatic, LargestBatch(run, target, "auto", peaks.net));
      table.figures.push_back({.what = "policy auto", .ours = automatic});
    }
    report.tables.push_back(std::move(table));
    gains += reproduced / static_cast<double>(SecondBest(peaks));
    ++nets;
  }
  report.tables.push_back({.title = "all networks",
                           .figures = {{.what = "mean of SuperNeurons over the second best",
                                        .paper = Published(run, kMeanGain),
                                        .ours = gains / nets,
                                        .decimals = 4}}});
  report.notes = {
      "neap's rows need less than the paper's because backward reads only what its kernels need, "
      "results go in place, and any activation may be evicted."};
  return report;
}

absl::StatusOr<PaperReport> Figure13(const PaperRun& run) {
  ASSIGN_OR_RETURN(const PlanTarget target, OpenPaperTarget(run, TeslaK40c()));
  PaperReport report = {.setting =
                            "all tensors of the network at the batches of Table 5, each with "
                            "bytes of its own, fp32, without workspaces"};
  PaperChart chart = {.title = "memory at the largest batches of Table 5", .y_label = "GiB"};
  for (const char* framework : kFrameworks) chart.series.push_back({.name = framework});
  chart.series.push_back({.name = "SuperNeurons"});
  double most = 0;
  for (const Peaks& peaks : kPeaks) {
    if (run.small && chart.x.size() == 2) break;
    chart.x.emplace_back(peaks.net);
    PaperTable table = {.title = peaks.net};
    const auto add = [&](size_t column, std::optional<int64_t> batch) -> absl::Status {
      std::optional<double> gib;
      if (batch.has_value()) {
        ASSIGN_OR_RETURN(gib, BytesAt(peaks.net, *batch, target));
        table.figures.push_back(
            {.what = absl::StrCat(chart.series[column].name, ", batch ", *batch),
             .ours = gib,
             .decimals = 2,
             .unit = "GiB"});
      }
      chart.series[column].values.push_back(gib);
      return absl::OkStatus();
    };
    for (size_t i = 0; i < kFrameworks.size(); ++i) RETURN_IF_ERROR(add(i, peaks.frameworks[i]));
    RETURN_IF_ERROR(add(kFrameworks.size(), peaks.superneurons));
    most = std::max(most, *chart.series.back().values.back() / *chart.series[0].values.back());
    report.tables.push_back(std::move(table));
  }
  report.tables.push_back({.title = "all networks",
                           .figures = {{.what = "SuperNeurons over Caffe, at most",
                                        .paper = Published(run, kMaxOverCaffe),
                                        .ours = most,
                                        .decimals = 1}}});
  report.charts = {std::move(chart)};
  report.notes = {
      "The paper draws the bars and adds the workspaces that each framework chose, which is why "
      "its largest ratio is above the ratio of the batches."};
  return report;
}

}  // namespace neap::apps::superneurons
