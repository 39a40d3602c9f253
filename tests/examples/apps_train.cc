// The examples of the headers under apps/inference/, apps/peak/ and apps/train/, compiled but not
// run.
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "apps/cli/flags.h"
#include "apps/cli/ranks.h"
#include "apps/inference/inference.h"
#include "apps/peak/peak_search.h"
#include "apps/train/report/event_file.h"
#include "apps/train/report/fit_report.h"
#include "apps/train/train_planning.h"
#include "apps/train/trial_run.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/run/session.h"

namespace neap::apps {

absl::Status InferenceExample(FlagSet& flags, const std::vector<std::string>& args,
                              const std::vector<float>& images) {
  InferenceFlags given;
  given.AddTo(flags);
  RETURN_IF_ERROR(flags.Parse(args));
  ASSIGN_OR_RETURN(Inference inference, OpenInference(given, flags));
  ASSIGN_OR_RETURN(const Prediction prediction, inference.session.Predict(images));
  return absl::OkStatus();
}

absl::Status PeakSearchExample(const Fits& fits, const Fits& keeps, const TrySize& try_size) {
  ASSIGN_OR_RETURN(const PeakSearch found, FindLargest(1 << 24, fits));
  ASSIGN_OR_RETURN(const PeakSearch kept, FindLargestKept(100, 200, keeps));
  {
    ASSIGN_OR_RETURN(const PeakSearch found,
                     FindLargestByBytes({.most = 1 << 24}, 12 * kGiB, try_size, 1));
  }
  return absl::OkStatus();
}

absl::Status FitReportExample(const Program& program, const Session& session,
                              const PlannerOptions& options, const DeviceDescription& device,
                              EngineCatalog& catalog) {
  ASSIGN_OR_RETURN(const auto fit, FindFit(program, session.plan(), options, device, catalog));
  if (fit.has_value()) Print(ToText(*fit));
  return absl::OkStatus();
}

void EventFileExample(double now) {
  EventRecord(now, EventVersion());  // the first record of a file
  EventRecord(now, EventScalars(/*step=*/100, {{"train/loss", 0.7F}, {"train/accuracy", 0.8F}}));
}

absl::Status TrialRunExample(const Graph& graph, const std::unique_ptr<Device>& device,
                             const PlannerOptions& options) {
  ASSIGN_OR_RETURN(const TrialRun run, RunTrial(graph, *device, options, /*steps=*/20));
  run.images_per_second;
  return absl::OkStatus();
}

absl::Status PlanningExample(const TrainFlags& flags, const Graph& graph,
                             const std::unique_ptr<Device>& device, const RankGroup& ranks) {
  const TrainPlanning plans(flags, graph, *device, ranks.share());
  ASSIGN_OR_RETURN(const Program program, plans.ProgramFor(nullptr));
  ASSIGN_OR_RETURN(const double seconds, plans.PredictSeconds());  // infinity: does not fit
  return absl::OkStatus();
}

}  // namespace neap::apps
