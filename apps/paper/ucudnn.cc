#include "apps/paper/ucudnn.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "apps/cli/device_flag.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"

namespace neap::apps::ucudnn {
NetFlags NetAt(const std::string& name, int64_t batch) {
  NetFlags net = {.name = name};
  net.options.batch = batch;
  return net;
}

int64_t UnitOf(const PaperRun& run) { return run.small ? 32 * kKiB : kMiB; }

ConvBenchRequest AlexNet(const PaperRun& run, DivisionPolicy divisions,
                         const std::vector<int64_t>& limits) {
  ConvBenchRequest request = {.net = run.small ? NetAt("lenet", 4) : NetAt("alexnet", 256)};
  request.bench.limits_bytes.clear();
  for (const int64_t limit : limits) request.bench.limits_bytes.push_back(limit * UnitOf(run));
  request.measuring.options.divisions = divisions;
  return request;
}

absl::StatusOr<ConvBenchReport> MeasuredConvolutions(const PaperRun& run,
                                                     ConvBenchRequest request) {
  request.measuring.device = run.device;
  request.measuring.database = run.database;
  if (run.small) request.measuring.options.samples = 1;
  request.plan_only = !IsHere(run.device);
  ASSIGN_OR_RETURN(ConvBenchReport report, RunConvBench(std::move(request)));
  if (!report.result.is_whole()) return absl::CancelledError("stopped");
  return report;
}

std::string SettingOf(const ConvBenchReport& report) {
  const ConvBenchSubject& subject = report.subject;
  return absl::StrCat(subject.set, ", ", subject.format,
                      subject.executed ? ", executed on " : ", predicted for ", subject.device,
                      " (", subject.versions, ")");
}

std::string NameOf(const ConvKernel& kernel) {
  return absl::StrCat(kernel.name, " ", std::string(Name(kernel.signature.phase)));
}

}  // namespace neap::apps::ucudnn

namespace neap::apps {

std::vector<PaperItem> MicroBatchItems() {
  const std::string paper = "u-cuDNN";
  const PaperNeeds times = PaperNeeds::kTimes;
  return {{"uc-fig1", paper, "Figure 1", "memory and time of AlexNet's convolutions by workspace",
           times, ucudnn::Figure1},
          {"uc-fig6", paper, "Figure 6", "the Pareto front of AlexNet's conv2 in 120 MiB", times,
           ucudnn::Figure6},
          {"uc-fig8", paper, "Figure 8", "speedups of DeepBench's forward convolutions", times,
           ucudnn::Figure8},
          {"uc-fig9", paper, "Figure 9", "AlexNet under WR in 8, 64 and 512 MiB", times,
           ucudnn::Figure9},
          {"uc-fig10", paper, "Figure 10", "how AlexNet's conv2 is divided in 64 MiB", times,
           ucudnn::Figure10},
          {"uc-fig11", paper, "Figure 11", "WR and WD with the same workspace in total", times,
           ucudnn::Figure11},
          {"uc-fig12", paper, "Figure 12", "the segments that WD gives AlexNet's kernels", times,
           ucudnn::Figure12},
          {"uc-table5", paper, "Table V", "iterations of three networks in 64 MiB for each kernel",
           times, ucudnn::Table5},
          {"uc-ilp", paper, "IV-B2", "the size of WD's integer programs and the time to solve them",
           times, ucudnn::IntegerPrograms},
          {"uc-fig13", paper, "Figure 13", "a batch divided among unequal GPUs",
           PaperNeeds::kNothing, ucudnn::Figure13}};
}

}  // namespace neap::apps
