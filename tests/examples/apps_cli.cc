// The examples of the headers under apps/cli/, compiled but not run.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "apps/cli/flag_names.h"
#include "apps/cli/flags.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/measured_device.h"
#include "apps/cli/numbers.h"
#include "apps/cli/output.h"
#include "apps/cli/predicted_speed.h"
#include "apps/cli/progress.h"
#include "apps/cli/ranks.h"
#include "apps/cli/saved_model.h"
#include "apps/cli/wait_policy.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/run/session.h"

namespace neap::apps {

absl::StatusOr<int> FlagsExample(const std::vector<std::string>& args, std::string& net,
                                 std::optional<int64_t>& budget_bytes, bool& json) {
  FlagSet flags("neap plan NET [flags]", "Plans one training iteration.");
  flags.Positional("NET", "a network", &net);
  flags.Add("budget", "BYTES", "device memory for everything", ReadBytes(&budget_bytes));
  flags.Add("json", "print one JSON object", &json);
  RETURN_IF_ERROR(flags.Parse(args));
  if (flags.help()) return PrintHelp(flags);
  return 0;
}

void FlagNamesExample() {
  SectionOf("lr", "X");                       // 4, the place of "training" in Sections()
  MeantBy("batch-size", {"batch", "image"});  // "batch"
}

int InterruptExample(int step, int last, const std::function<void(int)>& Take) {
  TakeSignals();  // the first call in main()
  WatchForInterrupt();
  while (step < last && !Interrupted()) Take(step++);
  return step < last ? InterruptedExitCode() : 0;
}

void PredictedSpeedExample(const PlanResult& result) { PredictedImagesPerSecond(result); }

absl::Status MeasuredDeviceExample() {
  ASSIGN_OR_RETURN(const MeasuredDevice h200, OpenMeasuredDevice("h200.db", "h200"));
  h200.device.versions;  // "cuDNN 9.19.0, cuBLASLt 13.1.0"
  return absl::OkStatus();
}

void NumbersExample() {
  ReadWhole("12");        // 12
  ReadWhole(" 12");       // nothing
  ReadDecimal("2.5e-3");  // 0.0025
  ReadDecimal("0x1p3");   // nothing
  ReadPercent("62.5%");   // 62.5
}

absl::StatusOr<Graph> SavedModelExample(const std::string& weights, const FlagSet& flags,
                                        NetFlags& net) {
  ASSIGN_OR_RETURN(const SavedModel saved, CompleteFromFile(weights, flags, net));
  ASSIGN_OR_RETURN(const Graph graph, net.Build());
  return graph;
}

absl::Status OutputExample(const std::string& plan_out, const std::string& report) {
  RETURN_IF_ERROR(CheckOutputs({{"--plan-out", plan_out}, {"--report", report}}));
  return absl::OkStatus();
}

void ProgressExample() {
  ProgressLine line("profile resnet50", "steps");
  line.Show(112, 180, "840 engines");
  line.End();
  StatusLine search("peak-batch resnet50");
  search.Show("trying batch 812");
}

absl::StatusOr<int> RanksExample(
    const RankFlags& flags, int64_t batch, TrainingOptions training,
    const std::function<absl::StatusOr<int>(const TrainingOptions&)>& Train) {
  return RunRanks(flags, "cuda:0,cuda:1", [&](RankGroup& ranks) -> absl::StatusOr<int> {
    RETURN_IF_ERROR(ranks.Divide(batch));
    ranks.images();  // of this rank
    ASSIGN_OR_RETURN(const std::unique_ptr<Device> device, OpenDevice(ranks.device()));
    ASSIGN_OR_RETURN(const std::unique_ptr<Communicator> communicator, ranks.Join(*device));
    training.communicator = communicator.get();  // null if it is alone
    return Train(training);
  });
}

void WaitPolicyExample(char** argv) {
  WaitPassively(argv);  // at the start of main()
}

}  // namespace neap::apps
