// The examples of the headers under apps/paper/ and apps/peak/, compiled but not run.
#include "absl/status/status.h"
#include "apps/paper/cudnn.h"
#include "apps/paper/modnn.h"
#include "apps/paper/paper_chart.h"
#include "apps/paper/paper_gpus.h"
#include "apps/paper/paper_item.h"
#include "apps/paper/paper_nets.h"
#include "apps/paper/paper_planning.h"
#include "apps/paper/paper_report.h"
#include "apps/paper/superneurons.h"
#include "apps/paper/ucudnn.h"
#include "apps/peak/find_peak.h"
#include "apps/peak/growth.h"
#include "apps/peak/size_search.h"
#include "apps/peak/sized_programs.h"
#include "neap/core/base/status_macros.h"

namespace neap::apps {

void PaperReportExample() {
  PaperReport report = {.setting = "AlexNet, batch 200"};
  report.tables.push_back({.title = "peak",
                           .figures = {{.what = "liveness",
                                        .paper = 1489.355,
                                        .ours = 1489.355,
                                        .decimals = 3,
                                        .unit = "MiB"}}});
  report.notes.push_back("The paper counts activations and their gradients only.");
}

absl::Status PaperChartExample(const PaperReport& report) {
  RETURN_IF_ERROR(WriteTextFile("sn-fig10.svg", ChartsSvg("sn-fig10", report.charts)));
  return absl::OkStatus();
}

void PaperGpusExample() { const PlanTarget k40c = PaperTarget(TeslaK40c()); }

void PaperNetsExample() { const Graph net = SegmentedResNet({3, 4, 6, 3}, /*batch=*/16); }

absl::Status PaperPlanningExample(const PaperRun& run, const Graph& graph) {
  ASSIGN_OR_RETURN(const PlanTarget target, OpenPaperTarget(run, TeslaK40c()));
  ASSIGN_OR_RETURN(const Planned planned, PlanNetwork(graph, {.accounting = Accounting::kPaper},
                                                      {.policy = "liveness"}, target));
  planned.result.plan.peak_bytes;
  return absl::OkStatus();
}

absl::StatusOr<PaperReport> Table1(const PaperRun& run) { return superneurons::Table1(run); }

std::vector<PaperItem> PaperItemExample() {
  return {
      {.name = "sn-table1",
       .paper = "SuperNeurons",
       .place = "Table 1",
       .shows = "extra forwards and peak of recomputation",
       .make = Table1},
  };
}

absl::Status SuperNeuronsExample() {
  ASSIGN_OR_RETURN(const PaperReport report, Table1({.small = true}));
  return absl::OkStatus();
}

absl::Status CudnnExample() {
  ASSIGN_OR_RETURN(const PaperReport table, cudnn::Table3({.device = "cuda:0"}));
  return absl::OkStatus();
}

namespace ucudnn {

absl::Status MicroBatchesExample(const PaperRun& run) {
  ASSIGN_OR_RETURN(const ConvBenchReport report,
                   MeasuredConvolutions(run, AlexNet(run, DivisionPolicy::kAll, {64})));
  return absl::OkStatus();
}

}  // namespace ucudnn

namespace modnn {

absl::Status RoundsExample(const Net& net, const PlanTarget& target) {
  ASSIGN_OR_RETURN(const std::optional<Rounds> rounds,
                   PlanRounds(net, 64, {.budget_bytes = 12 * kGiB, .policy = "modnn"}, target));
  return absl::OkStatus();
}

}  // namespace modnn

absl::Status SizesExample(const PeakFlags& flags, const PlanTarget& target, const Growth& growth,
                          PeakEffort& effort) {
  const std::string net = "resnet50";
  const PeakCase peak = {flags, target, growth, net, effort};
  const SizedPrograms programs(peak, {});
  ASSIGN_OR_RETURN(const Graph graph, programs.Build("trying", programs.Sized(64)));
  ASSIGN_OR_RETURN(const Program program, programs.Of(graph));
  SizeSearch search(peak, programs);
  ASSIGN_OR_RETURN(const LargestSize found, search.Largest(0));
  return absl::OkStatus();
}

absl::Status GrowthExample(const PeakFlags& flags, const PlanTarget& target) {
  ASSIGN_OR_RETURN(const PeakResult peak, FindPeak(flags, target, GrowingBatch(), "resnet50"));
  return absl::OkStatus();
}

}  // namespace neap::apps
