// moDNN, Figures 17 to 19: four GPUs.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "apps/paper/modnn.h"
#include "apps/paper/paper_gpus.h"
#include "apps/paper/paper_planning.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/plan/collective_cost.h"
#include "neap/core/program/passes.h"

namespace neap::apps::modnn {
namespace {

constexpr int kGpus = 4;
constexpr double kBusBytesPerSecond = 8e9;  // SuperNeurons 3.3.2, for the same bus
constexpr double kHopSeconds = 5e-6;        // of neap plan --hop

// A batch on four GPUs that share a bus.
struct Shared {
  double overlapped_seconds = 0;  // sums beside backward, as neap's ranks do
  double naive_seconds = 0;       // all gradients to one GPU after backward, and all weights back
};

// The bytes of the parameters, which are those of their gradients.
double WeightBytes(const Program& program) {
  double bytes = 0;
  for (const Tensor& tensor : program.tensors)
    bytes += tensor.role == Role::kParam ? static_cast<double>(tensor.spec.size_bytes()) : 0;
  return bytes;
}

// The target as one of four, whose sums take the time of a ring over the bus.
PlanTarget OneOfFour(PlanTarget target) {
  target.description =
      WithCollectives(std::move(target.description), kGpus,
                      {.bytes_per_second = kBusBytesPerSecond / kGpus, .hop_seconds = kHopSeconds});
  return target;
}

// `images` are those of a GPU's round, of which the last one sums the gradients.
absl::StatusOr<std::optional<Shared>> PlanShared(const Net& net, int64_t images,
                                                 const PlannerOptions& options,
                                                 const PlanTarget& alone, const PlanTarget& one) {
  ASSIGN_OR_RETURN(const Graph graph, BuildAt(net, images));
  ProgramOptions lowering = Lowering();
  ASSIGN_OR_RETURN(const std::optional<Planned> round,
                   PlanIfItFits(graph, lowering, options, alone));
  if (!round.has_value()) return std::nullopt;
  lowering.share = {.rank = 0, .ranks = kGpus, .first_image = 0, .all_images = kGpus * images};
  ASSIGN_OR_RETURN(const std::optional<Planned> last, PlanIfItFits(graph, lowering, options, one));
  if (!last.has_value()) return std::nullopt;
  const double rounds = static_cast<double>((net.batch / kGpus + images - 1) / images);
  const double before = (rounds - 1) * round->result.plan.predicted_ms / 1e3;
  const double to_one_and_back = 2 * (kGpus - 1) * WeightBytes(round->program) / kBusBytesPerSecond;
  return Shared{before + last->result.plan.predicted_ms / 1e3,
                before + round->result.plan.predicted_ms / 1e3 + to_one_and_back};
}

PaperFigure Speedup(const std::string& what, std::optional<double> ours,
                    std::optional<double> paper = {}) {
  return {.what = what, .paper = paper, .ours = ours, .decimals = 2, .unit = "x"};
}

struct Targets {
  PlanTarget alone, one;
};
absl::StatusOr<Targets> OpenTargets(const PaperRun& run) {
  Targets targets;
  ASSIGN_OR_RETURN(targets.alone, OpenPaperTarget(run, TeslaK40c()));
  ASSIGN_OR_RETURN(PlanTarget one, OpenPaperTarget(run, TeslaK40c()));
  targets.one = OneOfFour(std::move(one));
  return targets;
}

// A part of the batch for each GPU.
Net PartOf(Net net) {
  net.batch /= kGpus;
  return net;
}

constexpr char kSumsNote[] =
    "neap sums gradients on the GPUs, in a ring over the shared bus beside backward; the paper's "
    "approach sums them on the CPU. The naive way sends all gradients to one GPU after backward, "
    "and the weights back.";

// The speedups in a budget for each GPU (absent: the ideal case), and their means.
struct Means {
  double overlapped = 0, naive = 0;  // sums
  int nets = 0;

  // Absent if no network fits.
  std::optional<double> Of(double sum) const {
    return nets == 0 ? std::nullopt : std::optional(sum / nets);
  }
};

absl::StatusOr<Means> AddSpeedups(const PaperRun& run, std::optional<int64_t> budget_bytes,
                                  const Targets& targets, PaperReport& report, PaperChart& chart) {
  Means means;
  for (const Net& net : NetsOf(run)) {
    ASSIGN_OR_RETURN(const Rounds alone, Ideal(net, targets.alone));
    const Net part = PartOf(net);
    PlannerOptions options = {.policy = "liveness"};
    int64_t images = part.batch;
    if (budget_bytes.has_value()) {
      const int64_t budget = run.small ? alone.peak_bytes / 4 : *budget_bytes;
      options = {.budget_bytes = budget, .policy = "modnn"};
      ASSIGN_OR_RETURN(images, SelectedImages(part, budget, targets.alone));
    }
    ASSIGN_OR_RETURN(const std::optional<Shared> shared,
                     PlanShared(net, images, options, targets.alone, targets.one));
    std::optional<double> overlapped, naive;
    if (shared.has_value()) {
      overlapped = alone.seconds / shared->overlapped_seconds;
      naive = alone.seconds / shared->naive_seconds;
      means.overlapped += *overlapped;
      means.naive += *naive;
      ++means.nets;
    }
    const std::string where =
        budget_bytes.has_value() ? absl::StrCat(" in ", FormatBytes(*budget_bytes)) : "";
    report.tables.push_back(
        {.title = absl::StrCat(TitleOf(net), where),
         .figures = {{.what = "images in a GPU's sub-batch", .ours = static_cast<double>(images)},
                     Speedup("naive sums", naive),
                     Speedup("sums beside backward", overlapped)}});
    chart.x.push_back(absl::StrCat(net.name, where));
    chart.series[0].values.push_back(naive);
    chart.series[1].values.push_back(overlapped);
  }
  return means;
}

PaperChart SpeedupChart() {
  return {.title = "speedup of four GPUs over the ideal case on one",
          .y_label = "x",
          .series = {{.name = "naive sums"}, {.name = "sums beside backward"}}};
}

std::string SettingOf(const Targets& targets) {
  return absl::StrCat("one batch on four GPUs that share a bus of 8 GB/s, fp32, ",
                      TargetText(targets.alone));
}

}  // namespace

absl::StatusOr<PaperReport> Figure17(const PaperRun& run) {
  ASSIGN_OR_RETURN(const Targets targets, OpenTargets(run));
  PaperReport report = {.setting = SettingOf(targets)};
  PaperChart chart = SpeedupChart();
  ASSIGN_OR_RETURN(const Means means, AddSpeedups(run, std::nullopt, targets, report, chart));
  report.tables.push_back(
      {.title = "mean of the networks",
       .figures = {
           Speedup("naive sums", means.Of(means.naive), Published(run, 3.1)),
           Speedup("sums beside backward", means.Of(means.overlapped), Published(run, 3.7))}});
  report.charts = {std::move(chart)};
  report.notes = {kSumsNote};
  return report;
}

absl::StatusOr<PaperReport> Figure18(const PaperRun& run) {
  ASSIGN_OR_RETURN(const Targets targets, OpenTargets(run));
  PaperReport report = {.setting = SettingOf(targets)};
  PaperChart chart = SpeedupChart();
  struct Row {
    int64_t gib;
    double naive, overlapped;
  };
  for (const Row& row : {Row{6, 2.9, 3.4}, Row{3, 2.6, 3.1}}) {
    if (run.small && row.gib == 3) break;
    ASSIGN_OR_RETURN(const Means means, AddSpeedups(run, row.gib * kGiB, targets, report, chart));
    report.tables.push_back(
        {.title = absl::StrCat("mean of the networks in ", row.gib, " GiB each"),
         .figures = {Speedup("naive sums", means.Of(means.naive), Published(run, row.naive)),
                     Speedup("sums beside backward", means.Of(means.overlapped),
                             Published(run, row.overlapped))}});
  }
  report.charts = {std::move(chart)};
  report.notes = {
      kSumsNote,
      "The paper's figures are those of one CPU core; with 20 cores it has 3.2x in 3 GB."};
  return report;
}

absl::StatusOr<PaperReport> Figure19(const PaperRun& run) {
  ASSIGN_OR_RETURN(const Targets targets, OpenTargets(run));
  PaperReport report = {.setting = SettingOf(targets)};
  PaperChart chart = {.title = "four GPUs with 3 GiB each over one with 12 GiB",
                      .y_label = "x",
                      .series = {{.name = "speedup"}}};
  double sum = 0;
  int count = 0;
  for (const Net& net : NetsOf(run)) {
    int64_t budget = kK40Bytes;
    if (run.small) {
      ASSIGN_OR_RETURN(const Rounds ideal, Ideal(net, targets.alone));
      budget = ideal.peak_bytes;
    }
    ASSIGN_OR_RETURN(const int64_t images, SelectedImages(net, budget, targets.alone));
    ASSIGN_OR_RETURN(
        const std::optional<Rounds> alone,
        PlanRounds(net, images, {.budget_bytes = budget, .policy = "modnn"}, targets.alone));
    const Net part = PartOf(net);
    ASSIGN_OR_RETURN(const int64_t of_part, SelectedImages(part, budget / kGpus, targets.alone));
    ASSIGN_OR_RETURN(const std::optional<Shared> shared,
                     PlanShared(net, of_part, {.budget_bytes = budget / kGpus, .policy = "modnn"},
                                targets.alone, targets.one));
    std::optional<double> speedup;
    if (alone.has_value() && shared.has_value()) {
      speedup = alone->seconds / shared->overlapped_seconds;
      sum += *speedup;
      ++count;
    }
    report.tables.push_back(
        {.title = TitleOf(net),
         .figures = {
             {.what = "images in a sub-batch, one GPU", .ours = static_cast<double>(images)},
             {.what = "images in a sub-batch, four GPUs", .ours = static_cast<double>(of_part)},
             Speedup("speedup", speedup)}});
    chart.x.emplace_back(net.name);
    chart.series[0].values.push_back(speedup);
  }
  report.tables.push_back(
      {.title = "mean of the networks",
       .figures = {Speedup("speedup", count == 0 ? std::nullopt : std::optional(sum / count),
                           Published(run, 3.1))}});
  report.charts = {std::move(chart)};
  report.notes = {kSumsNote,
                  "The paper's figure is that of one CPU core; with 20 cores it has 3.3x."};
  return report;
}

}  // namespace neap::apps::modnn
