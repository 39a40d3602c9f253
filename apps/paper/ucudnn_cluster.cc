// u-cuDNN, Figure 13: a batch divided among GPUs of unequal speed.
#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "apps/paper/paper_gpus.h"
#include "apps/paper/paper_planning.h"
#include "apps/paper/ucudnn.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/plan/batch_split.h"
#include "neap/nets/registry.h"

namespace neap::apps::ucudnn {
namespace {

constexpr int64_t kImages = 32;  // of the batch: the paper's 8 and twice 12

// A GPU of the paper's cluster, and the predicted seconds of its parts of the batch.
class Gpu {
 public:
  Gpu(std::string name, DeviceDescription description)
      : name_(std::move(name)), target_(PaperTarget(std::move(description))) {}

  const std::string& name() const { return name_; }
  absl::StatusOr<double> Seconds(const std::string& net, int64_t images) {
    const auto known = seconds_.find(images);
    if (known != seconds_.end()) return known->second;
    ASSIGN_OR_RETURN(const Graph graph, nets::Build(net, {.batch = images}));
    ASSIGN_OR_RETURN(const Planned planned,
                     PlanNetwork(graph, {}, {.policy = "liveness"}, target_));
    return seconds_[images] = planned.result.plan.predicted_ms / 1e3;
  }

 private:
  std::string name_;
  PlanTarget target_;
  std::map<int64_t, double> seconds_;  // by images
};

struct Split {
  std::vector<int64_t> images;
  double seconds = 0;
};

absl::StatusOr<double> SlowestOf(const std::vector<Gpu*>& gpus, const std::string& net,
                                 const std::vector<int64_t>& images) {
  double slowest = 0;
  for (size_t i = 0; i < gpus.size(); ++i) {
    ASSIGN_OR_RETURN(const double seconds, gpus[i]->Seconds(net, images[i]));
    slowest = std::max(slowest, seconds);
  }
  return slowest;
}

// core/plan/batch_split.h, by predicted times.
absl::StatusOr<Split> FastestSplit(const std::vector<Gpu*>& gpus, const std::string& net) {
  BatchSplit search(kImages, static_cast<int>(gpus.size()));
  while (const std::optional<std::vector<int64_t>> images = search.Next()) {
    std::vector<double> seconds;
    for (size_t i = 0; i < gpus.size(); ++i) {
      ASSIGN_OR_RETURN(seconds.emplace_back(), gpus[i]->Seconds(net, (*images)[i]));
    }
    search.Add(seconds);
  }
  if (!search.best().has_value()) return absl::InternalError("no split of the batch fits");
  return Split{*search.best(), search.best_seconds()};
}

}  // namespace

absl::StatusOr<PaperReport> Figure13(const PaperRun& run) {
  const std::string net = run.small ? "resnet20" : "resnet18";
  Gpu first("GK210", TeslaGk210()), second("GK210", TeslaGk210());
  Gpu kepler("K20Xm", TeslaK20Xm()), maxwell("750Ti", Gtx750Ti());
  struct Row {
    std::vector<Gpu*> gpus;
    std::optional<double> speedup;
  };
  const std::vector<Row> rows = {{{&first}, {}},
                                 {{&kepler, &maxwell}, {}},
                                 {{&kepler, &first, &second}, 2.12},
                                 {{&kepler, &first, &second, &maxwell}, 2.20}};
  PaperReport report = {.setting =
                            absl::StrCat(net, ", batch ", kImages,
                                         ", fp32, predicted by the roofline from the rates of "
                                         "the paper's Table VI")};
  PaperChart chart = {.title = "time of the slowest GPU",
                      .y_label = "ms",
                      .series = {{.name = "even parts"}, {.name = "chosen parts"}}};
  ASSIGN_OR_RETURN(const double alone, first.Seconds(net, kImages));
  for (const Row& row : rows) {
    ASSIGN_OR_RETURN(const Split split, FastestSplit(row.gpus, net));
    ASSIGN_OR_RETURN(
        const double even,
        SlowestOf(row.gpus, net, EvenParts(kImages, static_cast<int64_t>(row.gpus.size()))));
    const std::string name = absl::StrJoin(row.gpus, " + ", [](std::string* out, const Gpu* gpu) {
      absl::StrAppend(out, gpu->name());
    });
    PaperTable table = {.title = name};
    table.figures = {
        {.what = "images", .text = absl::StrJoin(split.images, " + ")},
        {.what = "time, even parts", .ours = 1e3 * even, .decimals = 2, .unit = "ms"},
        {.what = "time, chosen parts", .ours = 1e3 * split.seconds, .decimals = 2, .unit = "ms"},
        {.what = "speedup over one GK210",
         .paper = row.speedup.has_value() ? Published(run, *row.speedup) : row.speedup,
         .ours = alone / split.seconds,
         .decimals = 2,
         .unit = "x"}};
    if (row.gpus.size() == 2) {  // where the paper compares with even parts
      table.figures.push_back({.what = "even parts are slower by",
                               .paper = Published(run, 1.37),
                               .ours = even / split.seconds,
                               .decimals = 2,
                               .unit = "x"});
    }
    report.tables.push_back(std::move(table));
    chart.x.push_back(name);
    chart.series[0].values.emplace_back(1e3 * even);
    chart.series[1].values.emplace_back(1e3 * split.seconds);
  }
  report.charts = {std::move(chart)};
  report.notes = {
      "In the paper the K20Xm gets 8 images and the GK210s 12 each, though its nominal rate is "
      "only "
      "a tenth below theirs: times there are measured. With even parts for the K20Xm and the 750Ti "
      "the 750Ti takes 168.43 ms and the K20Xm 83.03 ms."};
  return report;
}

}  // namespace neap::apps::ucudnn
