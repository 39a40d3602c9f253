#include "apps/train/train_planning.h"

#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "apps/cli/interrupt.h"
#include "apps/cli/kernel_flags.h"
#include "apps/cli/progress.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/program/passes.h"
#include "neap/core/program/shards.h"
#include "neap/core/run/file_planner.h"
#include "neap/layers/loss/dice_loss.h"
#include "neap/memory/known_plan.h"
#include "neap/memory/planner.h"

namespace neap::apps {
namespace {

// Plans evaluation if training runs a plan from a file: of all policies it needs the least memory.
// Such a plan may keep tensors on the host because that was asked for when it was made. They must
// be there in evaluation, too, so it may use the host as well.
constexpr char kEvaluationPolicy[] = "auto";

void ShowProgress(const MeasuringReport& report, ProgressLine& line) {
  const int64_t done = report.measured + report.failed;
  line.Show(done, done + report.left,
            absl::StrFormat("%.1f s, an iteration takes %.4g ms (%.4g before)", report.seconds,
                            report.replanned_ms, report.planned_ms));
}

}  // namespace

absl::StatusOr<Program> TrainPlanning::LowerWith(const ProgramChoice& choice) const {
  ProgramOptions options = PlanningFlags::Lowering(choice);
  options.optimizer = flags_.optimizer.Get();
  options.accumulation.batches = flags_.accumulate;
  options.share = share_;
  options.sync_batch_norm = flags_.sync_batch_norm;
  options.shard = ShardOf(share_, flags_.shard_optimizer);
  return Lower(graph_, options, device_.description());
}

absl::StatusOr<Program> TrainPlanning::ProgramFor(const Planner* planner) const {
  if (planner == nullptr) return LowerWith(flags_.planning.AskedProgram());
  ASSIGN_OR_RETURN(
      const ChosenProgram chosen,
      planner->Choose([this](const ProgramChoice& choice) { return LowerWith(choice); }, {},
                      device_.description(), device_.backend()));
  return LowerWith(chosen.choice);
}

absl::StatusOr<std::shared_ptr<const Planner>> TrainPlanning::MakePlanner(TrainSetup& setup) const {
  const DeviceDescription& device = device_.description();
  if (MeasuresKernels() && !flags_.planning.kernels.database.empty()) {
    // A new file for the times that are about to be measured.
    RETURN_IF_ERROR(
        OpenProfile(flags_.planning.kernels.database, device, device_.backend()).status());
  }
  ASSIGN_OR_RETURN(const KernelOptions kernels,
                   flags_.planning.kernels.Options(device, device_.backend()));
  setup.planning = flags_.planning.Options(device, kernels);
  setup.plan_file = flags_.plan_file;
  std::shared_ptr<const Planner> planner;
  if (!setup.plan_file.empty()) {
    setup.planning.policy = kEvaluationPolicy;
    setup.planning.host_budget_bytes = flags_.planning.HostBudgetOfFile(device).bytes;
    ASSIGN_OR_RETURN(planner,
                     PlannerFromFile(setup.plan_file, PlannerFor(setup.planning),
                                     {.host_budget_bytes = setup.planning.host_budget_bytes,
                                      .peer_budget_bytes =
                                          flags_.planning.peer_budget_bytes.value_or(kUnlimited)}));
    setup.planning.budget_bytes = planner->budget_bytes();
  }
  ASSIGN_OR_RETURN(const Program program, ProgramFor(planner.get()));
  ASSIGN_OR_RETURN(setup.peaks,
                   FindNaturalPeaks(program, setup.planning, device, device_.backend()));
  if (planner == nullptr) {
    setup.planning.budget_bytes = flags_.planning.BudgetBytes(setup.peaks);
    setup.host_budget = flags_.planning.HostBudgetFor(device);
    planner = PlannerFor(setup.planning);
  }
  NoteDiceOfRanks(setup);
  return planner;
}

void TrainPlanning::NoteDiceOfRanks(TrainSetup& setup) const {
  if (share_.ranks == 1) return;
  for (const GraphLayer& layer : graph_.layers()) {
    const auto* const dice = layer.layer.As<DiceLoss>();
    if (dice == nullptr || !dice->batch) continue;
    setup.notices.push_back(absl::StrCat("the Dice of '", layer.name,
                                         "' is that of each rank's images, not of the batch of ",
                                         share_.all_images, " as on one rank"));
    return;  // those of other heads, too
  }
}

bool TrainPlanning::MeasuresKernels() const {
  return flags_.measure_seconds > 0 && flags_.plan_file.empty() &&
         flags_.planning.kernels.reads_database() && device_.description().kind == "cuda";
}

absl::StatusOr<std::shared_ptr<const Planner>> TrainPlanning::Measured(
    std::shared_ptr<const Planner> planner, TextExchange* ranks, TrainSetup& setup) const {
  if (!MeasuresKernels()) return planner;
  absl::StatusOr<ProfileDatabase> database =
      OpenProfile(flags_.planning.kernels.database, device_.description(), device_.backend());
  ASSIGN_OR_RETURN(const std::string reason, ReasonNotToMeasure(database.status(), ranks));
  if (!reason.empty()) {
    setup.notices.push_back(absl::StrCat("kernels are not measured: ", reason));
    return planner;
  }
  std::optional<ProgressLine> line;  // of the first rank
  if (ranks == nullptr || ranks->rank() == 0)
    line.emplace(absl::StrCat("measure ", flags_.net.name), "engines");
  const MeasuringOptions options = {
      .seconds = flags_.measure_seconds,
      .with_installed_times = flags_.planning.kernels.reads_installed_times(),
      .on_progress =
          [&](const MeasuringReport& report) {
            if (line.has_value()) ShowProgress(report, *line);
            return !Interrupted();
          },
      .ranks = ranks};
  const PlanRequest request = {.budget_bytes = setup.planning.budget_bytes,
                               .strict = setup.planning.strict};
  ASSIGN_OR_RETURN(setup.measured,
                   MeasureKernels([this](const ProgramChoice& choice) { return LowerWith(choice); },
                                  setup.planning, request, device_, *database, options));
  line.reset();
  const MeasuringReport& report = *setup.measured;
  const bool has_news = report.measured + report.failed + report.from_others > 0;
  if (has_news) {
    ASSIGN_OR_RETURN(setup.planning.kernels,
                     flags_.planning.kernels.Options(device_.description(), device_.backend()));
    planner = PlannerFor(setup.planning);
  }
  std::optional<ChosenProgram> chosen = std::exchange(setup.measured->chosen, std::nullopt);
  if (!chosen.has_value()) return planner;
  return WithKnownPlan(std::move(planner), request, *std::move(chosen));
}

absl::StatusOr<double> TrainPlanning::PredictSeconds() const {
  const absl::StatusOr<double> seconds = PredictSecondsIfItFits();
  // Kernels have no indices for so many images, if it is unimplemented.
  const bool fits =
      !absl::IsResourceExhausted(seconds.status()) && !absl::IsUnimplemented(seconds.status());
  return fits ? seconds : std::numeric_limits<double>::infinity();
}

absl::StatusOr<double> TrainPlanning::PredictSecondsIfItFits() const {
  TrainSetup setup;
  ASSIGN_OR_RETURN(const std::shared_ptr<const Planner> planner, MakePlanner(setup));
  const PlanRequest request = {.budget_bytes = setup.planning.budget_bytes,
                               .strict = setup.planning.strict};
  const auto lower = [this](const ProgramChoice& choice) { return LowerWith(choice); };
  ASSIGN_OR_RETURN(ChosenProgram chosen,
                   planner->Choose(lower, request, device_.description(), device_.backend()));
  if (!chosen.plan.has_value()) {
    ASSIGN_OR_RETURN(const Program program, LowerWith(chosen.choice));
    ASSIGN_OR_RETURN(chosen.plan,
                     planner->Plan(program, request, device_.description(), device_.backend()));
  }
  return (PredictedMs(chosen.plan->plan).value_or(0) + chosen.plan->stats.batch_copy_ms) * 1e-3;
}

}  // namespace neap::apps
