// moDNN, Figures 9 and 13: how little memory training can take.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/paper/modnn.h"
#include "apps/paper/paper_gpus.h"
#include "apps/paper/paper_planning.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/program/passes.h"
#include "neap/memory/planner.h"

namespace neap::apps::modnn {
namespace {

PaperFigure Memory(const std::string& what, double bytes, std::optional<double> paper = {}) {
  return {.what = what, .paper = paper, .ours = bytes / kGiB, .decimals = 2, .unit = "GiB"};
}

PaperFigure Times(const std::string& what, double ours, std::optional<double> paper = {}) {
  return {.what = what, .paper = paper, .ours = ours, .decimals = 1, .unit = "x"};
}

struct IdealMemory {
  double tensors = 0;
  double workspace = 0;  // the largest
};

// Everything that training needs, each tensor with bytes of its own, and the largest workspace of
// the fastest engines.
absl::StatusOr<IdealMemory> IdealMemoryOf(const Net& net, int64_t images,
                                          const PlanTarget& target) {
  ASSIGN_OR_RETURN(const Graph graph, BuildAt(net, images));
  ASSIGN_OR_RETURN(
      const Planned planned,
      PlanNetwork(graph, Lowering(), {.policy = "keep-all", .in_place = false}, target));
  int64_t workspace = 0;
  for (const Action& action : planned.result.plan.actions) {
    const auto* const compute = std::get_if<ComputeAction>(&action);
    if (compute != nullptr && compute->workspace.has_value())
      workspace = std::max(workspace, compute->workspace->bytes);
  }
  return IdealMemory{static_cast<double>(BytesOfAllTensors(planned.program)),
                     static_cast<double>(workspace)};
}

}  // namespace

absl::StatusOr<PaperReport> Figure9(const PaperRun& run) {
  ASSIGN_OR_RETURN(const PlanTarget target, OpenPaperTarget(run, TeslaK40c()));
  PaperReport report = {.setting = absl::StrCat("fp32, gradient descent, ", TargetText(target))};
  PaperChart chart = {
      .title = "memory",
      .y_label = "GiB",
      .series = {
          {.name = "ideal"}, {.name = "lower bound"}, {.name = "lower bound, weights offloaded"}}};
  double bound = 0, without_weights = 0;
  const std::vector<Net> nets = NetsOf(run);
  for (const Net& net : nets) {
    ASSIGN_OR_RETURN(const IdealMemory ideal, IdealMemoryOf(net, net.batch, target));
    ASSIGN_OR_RETURN(const ModnnMemory least, MemoryAt(net, 1, target));
    const double ideal_bytes = ideal.tensors + ideal.workspace;
    const auto least_bytes = static_cast<double>(least.LeastBytes(1));
    const auto least_without = static_cast<double>(least.LeastBytesWithoutWeights(1));
    const bool is_largest = std::string(net.name) == "VGG-101";
    report.tables.push_back(
        {.title = TitleOf(net),
         .figures = {Memory("ideal", ideal_bytes),
                     Memory("lower bound (equation 7)", least_bytes,
                            is_largest ? std::optional<double>(1.4e9 / kGiB) : std::nullopt),
                     Memory("lower bound, weights offloaded", least_without),
                     Times("reduction", ideal_bytes / least_bytes),
                     Times("reduction, weights offloaded", ideal_bytes / least_without)}});
    chart.x.emplace_back(net.name);
    chart.series[0].values.emplace_back(ideal_bytes / kGiB);
    chart.series[1].values.emplace_back(least_bytes / kGiB);
    chart.series[2].values.emplace_back(least_without / kGiB);
    bound += ideal_bytes / least_bytes;
    without_weights += ideal_bytes / least_without;
  }
  const auto count = static_cast<double>(nets.size());
  report.tables.push_back({.title = "mean of the networks",
                           .figures = {Times("reduction", bound / count, Published(run, 59)),
                                       Times("reduction, weights offloaded",
                                             without_weights / count, Published(run, 396))}});
  report.charts = {std::move(chart)};
  report.notes = {
      "The paper draws the bars. Its text: VGG-101 takes nearly 100 GB, and 1.4 GB at least; only "
      "ResNet-34 fits 12 GB, and FCN fits 24 GB.",
      "VGG-101's layers and FCN's images are not stated (nets/vgg.h, apps/paper/modnn_nets.cc)."};
  return report;
}

absl::StatusOr<PaperReport> Figure13(const PaperRun& run) {
  ASSIGN_OR_RETURN(const PlanTarget target, OpenPaperTarget(run, TeslaK40c()));
  PaperReport report = {.setting = absl::StrCat("fp32, gradient descent, ", TargetText(target))};
  PaperChart chart = {
      .title = "memory by one technique alone, as part of the ideal case's",
      .y_label = "%",
      .series = {{.name = "sub-batches"}, {.name = "moving"}, {.name = "algorithms"}}};
  double split = 0, moved = 0, chosen = 0;
  const std::vector<Net> nets = NetsOf(run);
  for (const Net& net : nets) {
    ASSIGN_OR_RETURN(const IdealMemory ideal, IdealMemoryOf(net, net.batch, target));
    ASSIGN_OR_RETURN(const IdealMemory one, IdealMemoryOf(net, 1, target));
    ASSIGN_OR_RETURN(const Graph graph, BuildAt(net, net.batch));
    ASSIGN_OR_RETURN(const Program program, Lower(graph, Lowering(), target.description));
    ASSIGN_OR_RETURN(const int64_t least,
                     MinimumBudget(program, {.policy = "modnn", .kernels = target.kernels},
                                   target.description, target.engines()));
    const double all = ideal.tensors + ideal.workspace;
    report.tables.push_back(
        {.title = TitleOf(net),
         .figures = {Memory("ideal", all),
                     Memory("sub-batches of one image", one.tensors + one.workspace),
                     Memory("offloading and prefetching", static_cast<double>(least)),
                     Memory("algorithms without workspace", ideal.tensors)}});
    chart.x.emplace_back(net.name);
    chart.series[0].values.emplace_back(100 * (one.tensors + one.workspace) / all);
    chart.series[1].values.emplace_back(100 * static_cast<double>(least) / all);
    chart.series[2].values.emplace_back(100 * ideal.tensors / all);
    split += all / (one.tensors + one.workspace);
    moved += all / static_cast<double>(least);
    chosen += 100 * ideal.workspace / all;
  }
  const auto count = static_cast<double>(nets.size());
  report.tables.push_back(
      {.title = "mean of the networks",
       .figures = {
           Times("reduction by sub-batches", split / count, Published(run, 42)),
           Times("reduction by offloading and prefetching", moved / count, Published(run, 4.1)),
           {.what = "reduction by algorithms",
            .paper = Published(run, 15),
            .ours = chosen / count,
            .decimals = 1,
            .unit = "%"}}});
  report.charts = {std::move(chart)};
  report.notes = {
      "Workspaces are those of the device's engines; without --device those of convolutions are "
      "not known.",
      "neap's offloading also evicts gradients that are partly summed, and its results go in "
      "place."};
  return report;
}

}  // namespace neap::apps::modnn
