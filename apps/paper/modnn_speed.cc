// moDNN, Figures 10 to 12 and 14: how long a batch takes, and what it moves.
#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/paper/modnn.h"
#include "apps/paper/paper_gpus.h"
#include "apps/paper/paper_planning.h"
#include "neap/core/base/status_macros.h"

namespace neap::apps::modnn {
namespace {

PaperFigure Seconds(const std::string& what, const std::optional<Rounds>& rounds) {
  PaperFigure figure = {.what = what, .decimals = 3, .unit = "s"};
  if (rounds.has_value()) figure.ours = rounds->seconds;
  return figure;
}

PaperFigure Percent(const std::string& what, std::optional<double> ours,
                    std::optional<double> paper = {}) {
  return {.what = what, .paper = paper, .ours = ours, .decimals = 1, .unit = "%"};
}

PaperFigure Ratio(const std::string& what, std::optional<double> ours,
                  std::optional<double> paper = {}) {
  return {.what = what, .paper = paper, .ours = ours, .decimals = 2, .unit = "x"};
}

// The mean of the values that are present.
class Mean {
 public:
  void Add(std::optional<double> value) {
    if (!value.has_value()) return;
    sum_ += *value;
    ++count_;
  }
  std::optional<double> Get() const {
    return count_ == 0 ? std::nullopt : std::optional<double>(sum_ / count_);
  }

 private:
  double sum_ = 0;
  int count_ = 0;
};

std::optional<double> SlowerPercent(const std::optional<Rounds>& rounds, const Rounds& ideal) {
  if (!rounds.has_value()) return std::nullopt;
  return 100 * (rounds->seconds / ideal.seconds - 1);
}

// The paper's 12 GB, or for small networks half of what the ideal case takes.
int64_t BudgetOf(const PaperRun& run, const Rounds& ideal) {
  return run.small ? ideal.peak_bytes / 2 : kK40Bytes;
}

absl::StatusOr<std::optional<Rounds>> Modnn(const Net& net, int64_t images, int64_t budget_bytes,
                                            const PlanTarget& target) {
  return PlanRounds(net, images, {.budget_bytes = budget_bytes, .policy = "modnn"}, target);
}

constexpr char kTransfersNote[] =
    "neap's vDNN lets a copy overlap with any computation; the paper's waits after each layer "
    "(Fig. 4). vDNN is the fastest of vdnn-conv, vdnn-all and, where nothing has to move, "
    "liveness. Each round has an update.";

// The measurements of a network in Figures 10 and 11.
struct Compared {
  Rounds ideal;
  std::optional<Rounds> vdnn, modnn;
};

absl::StatusOr<Compared> CompareIn12(const PaperRun& run, const Net& net,
                                     const PlanTarget& target) {
  Compared compared;
  ASSIGN_OR_RETURN(compared.ideal, Ideal(net, target));
  const int64_t budget = BudgetOf(run, compared.ideal);
  ASSIGN_OR_RETURN(const int64_t images, SelectedImages(net, budget, target));
  ASSIGN_OR_RETURN(compared.modnn, Modnn(net, images, budget, target));
  ASSIGN_OR_RETURN(compared.vdnn, Vdnn(net, net.batch, budget, target));
  return compared;
}

PaperFigure ImagesFigure(const std::optional<Rounds>& rounds) {
  PaperFigure figure = {.what = "images in moDNN's sub-batch"};
  if (rounds.has_value()) figure.ours = static_cast<double>(rounds->images);
  return figure;
}

std::string SettingIn12(const PaperRun& run, const PlanTarget& target) {
  return absl::StrCat("one batch, fp32, in ",
                      run.small ? "half of the ideal case's memory" : FormatBytes(kK40Bytes), ", ",
                      TargetText(target));
}

}  // namespace

absl::StatusOr<PaperReport> Figure10(const PaperRun& run) {
  ASSIGN_OR_RETURN(const PlanTarget target, OpenPaperTarget(run, TeslaK40c()));
  PaperReport report = {.setting = SettingIn12(run, target)};
  PaperChart chart = {.title = "time of a batch, as part of the ideal case's",
                      .y_label = "%",
                      .series = {{.name = "vDNN"}, {.name = "moDNN"}}};
  Mean vdnn, modnn;
  for (const Net& net : NetsOf(run)) {
    ASSIGN_OR_RETURN(const Compared compared, CompareIn12(run, net, target));
    const std::optional<double> by_vdnn = SlowerPercent(compared.vdnn, compared.ideal);
    const std::optional<double> by_modnn = SlowerPercent(compared.modnn, compared.ideal);
    report.tables.push_back(
        {.title = TitleOf(net),
         .figures = {Seconds("ideal", compared.ideal), Seconds("vDNN", compared.vdnn),
                     Seconds("moDNN", compared.modnn), ImagesFigure(compared.modnn),
                     Percent("vDNN is slower by", by_vdnn),
                     Percent("moDNN is slower by", by_modnn)}});
    vdnn.Add(by_vdnn);
    modnn.Add(by_modnn);
    chart.x.emplace_back(net.name);
    chart.series[0].values.push_back(by_vdnn.has_value() ? std::optional(100 + *by_vdnn)
                                                         : std::nullopt);
    chart.series[1].values.push_back(by_modnn.has_value() ? std::optional(100 + *by_modnn)
                                                          : std::nullopt);
  }
  report.tables.push_back(
      {.title = "mean of the networks",
       .figures = {Percent("vDNN is slower by", vdnn.Get(), Published(run, 31)),
                   Percent("moDNN is slower by", modnn.Get(), Published(run, 3))}});
  report.charts = {std::move(chart)};
  report.notes = {kTransfersNote,
                  "The roofline makes small sub-batches as efficient as large ones, so what they "
                  "cost on a GPU is missing here; measured times (--device, --database) have it."};
  return report;
}

absl::StatusOr<PaperReport> Figure11(const PaperRun& run) {
  ASSIGN_OR_RETURN(const PlanTarget target, OpenPaperTarget(run, TeslaK40c()));
  PaperReport report = {.setting = SettingIn12(run, target)};
  PaperChart chart = {.title = "bytes moved, both ways",
                      .y_label = "GB",
                      .series = {{.name = "vDNN"}, {.name = "moDNN"}}};
  double by_vdnn = 0, by_modnn = 0;
  Mean reduction;
  for (const Net& net : NetsOf(run)) {
    ASSIGN_OR_RETURN(const Compared compared, CompareIn12(run, net, target));
    PaperTable table = {.title = TitleOf(net)};
    const auto add = [&](const char* what, const std::optional<Rounds>& rounds, size_t series) {
      std::optional<double> gigabytes;
      if (rounds.has_value()) gigabytes = rounds->moved_bytes / 1e9;
      table.figures.push_back({.what = what, .ours = gigabytes, .decimals = 2, .unit = "GB"});
      chart.series[series].values.push_back(gigabytes);
      return gigabytes.value_or(0);
    };
    const double vdnn = add("vDNN", compared.vdnn, 0), modnn = add("moDNN", compared.modnn, 1);
    table.figures.push_back(ImagesFigure(compared.modnn));
    if (vdnn > 0 && modnn > 0) reduction.Add(vdnn / modnn);
    by_vdnn += vdnn;
    by_modnn += modnn;
    chart.x.emplace_back(net.name);
    report.tables.push_back(std::move(table));
  }
  PaperTable all = {.title = "all networks"};
  all.figures.push_back({.what = "vDNN", .ours = by_vdnn, .decimals = 2, .unit = "GB"});
  all.figures.push_back({.what = "moDNN", .ours = by_modnn, .decimals = 2, .unit = "GB"});
  all.figures.push_back(
      Ratio("mean reduction, where moDNN moves any", reduction.Get(), Published(run, 378)));
  report.tables.push_back(std::move(all));
  report.charts = {std::move(chart)};
  report.notes = {
      kTransfersNote,
      "Where the selected sub-batch fits as it is, moDNN moves nothing, and there is no "
      "ratio."};
  return report;
}

absl::StatusOr<PaperReport> Figure12(const PaperRun& run) {
  ASSIGN_OR_RETURN(const PlanTarget target, OpenPaperTarget(run, TeslaK40c()));
  PaperReport report = {.setting = absl::StrCat("one batch, fp32, ", TargetText(target))};
  Mean speedup;
  for (const Net& net : NetsOf(run)) {
    ASSIGN_OR_RETURN(const Rounds ideal, Ideal(net, target));
    std::vector<int64_t> budgets;
    for (const int64_t gib : {12, 10, 8, 6, 5, 4, 3, 2}) budgets.push_back(gib * kGiB);
    if (run.small) budgets = {ideal.peak_bytes / 2, ideal.peak_bytes / 4};
    PaperTable table = {.title = TitleOf(net)};
    PaperChart chart = {.title = absl::StrCat(net.name, ", time of a batch over the ideal case's"),
                        .y_label = "x",
                        .series = {{.name = "vDNN+"}, {.name = "moDNN"}},
                        .lines = true};
    for (const int64_t budget : budgets) {
      ASSIGN_OR_RETURN(const int64_t images, SelectedImages(net, budget, target));
      ASSIGN_OR_RETURN(const std::optional<Rounds> modnn, Modnn(net, images, budget, target));
      ASSIGN_OR_RETURN(const std::optional<Rounds> vdnn, Vdnn(net, images, budget, target));
      const auto over = [&](const std::optional<Rounds>& rounds) {
        return rounds.has_value() ? std::optional(rounds->seconds / ideal.seconds) : std::nullopt;
      };
      const std::string in = absl::StrCat(FormatBytes(budget), ", ", images, " images");
      table.figures.push_back(Ratio(absl::StrCat("vDNN+ in ", in), over(vdnn)));
      table.figures.push_back(Ratio(absl::StrCat("moDNN in ", in), over(modnn)));
      chart.x.push_back(FormatBytes(budget));
      chart.series[0].values.push_back(over(vdnn));
      chart.series[1].values.push_back(over(modnn));
      if (vdnn.has_value() && modnn.has_value()) speedup.Add(vdnn->seconds / modnn->seconds);
    }
    report.tables.push_back(std::move(table));
    report.charts.push_back(std::move(chart));
  }
  report.tables.push_back(
      {.title = "all networks and budgets",
       .figures = {Ratio("mean speedup over vDNN+", speedup.Get(), Published(run, 1.26))}});
  report.notes = {kTransfersNote,
                  "vDNN+ is vDNN with moDNN's sub-batches. The budgets are of our choice: the "
                  "paper's are only drawn."};
  return report;
}

absl::StatusOr<PaperReport> Figure14(const PaperRun& run) {
  ASSIGN_OR_RETURN(const PlanTarget target, OpenPaperTarget(run, TeslaK40c()));
  PaperReport report = {.setting = absl::StrCat("one batch, fp32, ", TargetText(target))};
  PaperChart chart = {
      .title = "time of a batch by one technique alone, over the ideal case's",
      .y_label = "x",
      .series = {{.name = "sub-batches"}, {.name = "moving"}, {.name = "algorithms"}}};
  Mean split, moved, chosen;
  for (const Net& net : NetsOf(run)) {
    ASSIGN_OR_RETURN(const Rounds ideal, Ideal(net, target));
    const int64_t budget = BudgetOf(run, ideal);
    ASSIGN_OR_RETURN(const std::optional<Rounds> ones,
                     PlanRounds(net, 1, {.policy = "liveness"}, target));
    ASSIGN_OR_RETURN(const std::optional<Rounds> moving, Modnn(net, net.batch, budget, target));
    ASSIGN_OR_RETURN(
        const std::optional<Rounds> without,
        PlanRounds(net, net.batch, {.policy = "liveness", .kernels = {.workspace_limit_bytes = 0}},
                   target));
    PaperTable table = {.title = TitleOf(net)};
    const auto add = [&](const char* what, const std::optional<Rounds>& rounds, size_t series,
                         Mean& mean) {
      std::optional<double> over;
      if (rounds.has_value()) over = rounds->seconds / ideal.seconds;
      table.figures.push_back(Ratio(what, over));
      chart.series[series].values.push_back(over);
      mean.Add(over);
    };
    add("sub-batches of one image", ones, 0, split);
    add("offloading and prefetching", moving, 1, moved);
    add("algorithms without workspace", without, 2, chosen);
    chart.x.emplace_back(net.name);
    report.tables.push_back(std::move(table));
  }
  report.tables.push_back(
      {.title = "mean of the networks",
       .figures = {Ratio("sub-batches of one image", split.Get(), Published(run, 3.74)),
                   Ratio("offloading and prefetching", moved.Get(), Published(run, 1.28)),
                   Ratio("algorithms without workspace", chosen.Get(), Published(run, 2.7))}});
  report.charts = {std::move(chart)};
  report.notes = {
      "The roofline knows neither how a GPU idles at one image nor engines that need workspace: "
      "with --device and measured times the first and the last row have that.",
      "In the paper the last two are degradations of 28% and, by its text, 2.7x."};
  return report;
}

}  // namespace neap::apps::modnn
