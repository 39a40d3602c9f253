#include "apps/peak/peak_finder.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "apps/cli/measured_device.h"
#include "apps/cli/predicted_speed.h"
#include "neap/core/base/clock.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/program/homes.h"
#include "neap/core/program/program.h"
#include "neap/core/verifier/verifier.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/memory/program_choice.h"

namespace neap::apps {
namespace {

// More sub-batches must allow sizes that are larger by one part in so many.
constexpr int64_t kMinGain = 8;

}  // namespace

PlannerOptions PeakFinder::Unlimited() const {
  PlannerOptions options = programs_.Options();
  options.budget_bytes = kUnlimited;
  options.policy = "liveness";
  return options;
}

absl::StatusOr<int64_t> PeakFinder::MinimumAt(int64_t n, const PlannerOptions& options) const {
  ASSIGN_OR_RETURN(const Graph graph, programs_.Build("trying", Sized(n)));
  ASSIGN_OR_RETURN(const Program program, programs_.Of(graph));
  return MinimumBudget(program, options, peak_.target.description, peak_.target.engines());
}

absl::StatusOr<bool> PeakFinder::FitsBoth(int64_t n) const {
  ASSIGN_OR_RETURN(const SizeFit fit, sizes_.Fit(n));
  if (!fit.fits) return false;
  const absl::Status planned = PlanAt(n, programs_.Options()).status();
  if (absl::IsResourceExhausted(planned)) return false;
  RETURN_IF_ERROR(planned);
  return true;
}

absl::StatusOr<PlanResult> PeakFinder::PlanAt(int64_t n, const PlannerOptions& options) const {
  ASSIGN_OR_RETURN(const Graph graph, programs_.Build("planning", Sized(n)));
  ASSIGN_OR_RETURN(const Program program, programs_.Of(graph));
  ++peak_.effort.plans;
  ASSIGN_OR_RETURN(PlanResult result,
                   MakePlan(program, options, peak_.target.description, peak_.target.engines()));
  RETURN_IF_ERROR(Verify(result.plan));
  RETURN_IF_ERROR(MatchesProgram(result.plan, program));
  return result;
}

absl::Status PeakFinder::PlanLargest(int64_t from, PeakResult& result) const {
  const int64_t least = peak_.growth.least;
  const auto plan = [&] {
    const auto start = std::chrono::steady_clock::now();
    PlannerOptions options = programs_.Options();
    options.suggest_policy = true;  // the user reads this refusal
    absl::StatusOr<PlanResult> planned = PlanAt(std::max(result.search.largest, least), options);
    result.plan_ms = MillisecondsSince(start);
    return planned;
  };
  absl::StatusOr<PlanResult> planned = plan();
  if (absl::IsResourceExhausted(planned.status()) && result.search.largest > least) {
    const int64_t most = result.search.largest - 1;
    ASSIGN_OR_RETURN(PeakSearch again, FindLargest(
                                           most, [&](int64_t n) { return FitsBoth(n); },
                                           std::clamp(from, least, most)));
    again.elapsed_ms += result.plan_ms;
    result.search = After(result.search, again);
    result.by_host = true;
    planned = plan();
  }
  ASSIGN_OR_RETURN(result.planned, std::move(planned));
  result.is_planned = true;
  return absl::OkStatus();
}

absl::StatusOr<PlanResult> PeakFinder::PlanUnlimited(int64_t n) const {
  const int64_t batch = *Sized(n).options.batch;
  ProgramChoice choice = {.batch_norm_in_parts = choice_.batch_norm_in_parts};
  for (int64_t count = peak_.flags.planning.sub_batches.value_or(1);; count *= 2) {
    choice.sub_batches = count;
    const PeakFinder finder(peak_, choice);
    absl::StatusOr<PlanResult> planned = finder.PlanAt(batch, finder.Unlimited());
    if (count >= choice_.sub_batches || !absl::IsUnimplemented(planned.status())) return planned;
  }
}

absl::StatusOr<KeptSpeed> PeakFinder::SpeedOf(int64_t n, const PlanResult& planned) const {
  ASSIGN_OR_RETURN(const PlanResult unlimited, PlanUnlimited(n));
  return KeptSpeed{.images_per_second = PredictedImagesPerSecond(planned),
                   .unlimited_images_per_second = PredictedImagesPerSecond(unlimited)};
}

// The minimum budget is nearly linear in the batch.
absl::StatusOr<int64_t> PeakFinder::LargestUnmoved(int64_t most) const {
  ASSIGN_OR_RETURN(const int64_t least, MinimumAt(peak_.growth.least, Unlimited()));
  ASSIGN_OR_RETURN(const int64_t bytes, MinimumAt(most, Unlimited()));
  const int64_t budget = programs_.Options().budget_bytes;
  if (bytes <= budget || bytes == least) return most;
  const double part = static_cast<double>(budget - least) / static_cast<double>(bytes - least);
  return 1 + static_cast<int64_t>(std::max(0.0, part) * static_cast<double>(most - 1));
}

absl::Status PeakFinder::KeepsTooLittle() const {
  ASSIGN_OR_RETURN(const PlanResult planned, PlanAt(peak_.growth.least, programs_.Options()));
  ASSIGN_OR_RETURN(const KeptSpeed speed, SpeedOf(peak_.growth.least, planned));
  const int64_t budget = programs_.Options().budget_bytes;
  return absl::ResourceExhaustedError(absl::StrFormat(
      "found no batch of %s that keeps %g%% of its speed in a budget of %d bytes (%s); batch %d "
      "keeps %.1f%%",
      peak_.net, *peak_.flags.keep_percent, budget, FormatBytes(budget), peak_.growth.least,
      speed.Percent()));
}

absl::Status PeakFinder::Keep(int64_t from, PeakResult& result) const {
  const int64_t most = result.search.largest;
  const PlanResult at_most = result.planned;
  ASSIGN_OR_RETURN(const int64_t likely, LargestUnmoved(most));
  int64_t largest = 0;  // size tried that keeps its speed
  const auto keeps = [&](int64_t n) -> absl::StatusOr<bool> {
    if (n < peak_.growth.least) return false;
    const auto start = std::chrono::steady_clock::now();
    absl::StatusOr<PlanResult> planned = n == most ? at_most : PlanAt(n, programs_.Options());
    if (absl::IsResourceExhausted(planned.status())) return false;
    RETURN_IF_ERROR(planned.status());
    const double plan_ms = n == most ? result.plan_ms : MillisecondsSince(start);
    ASSIGN_OR_RETURN(const KeptSpeed speed, SpeedOf(n, *planned));
    if (speed.Percent() < *peak_.flags.keep_percent) return false;
    if (n <= largest) return true;
    largest = n;
    if (peak_.growth.on_found != nullptr) peak_.growth.on_found("keeps its speed", Sized(n));
    result.kept = speed;
    result.plan_ms = plan_ms;
    result.planned = *std::move(planned);
    return true;
  };
  ASSIGN_OR_RETURN(const PeakSearch kept, FindLargestKept(likely, most, keeps, from));
  if (kept.largest == 0) return KeepsTooLittle();
  result.search = After(result.search, kept);
  result.by_speed = kept.largest < most;
  return absl::OkStatus();
}

absl::StatusOr<KeptSpeed> PeakFinder::MeasureKept(const PeakRun& run) const {
  const int64_t n = run.trial.batch;
  ASSIGN_OR_RETURN(const PlanResult planned, PlanUnlimited(n));
  KeptSpeed kept = {.images_per_second = run.trial.images_per_second,
                    .unlimited_images_per_second = PredictedImagesPerSecond(planned)};
  if (planned.plan.arena_bytes > peak_.target.description.memory_bytes) return kept;
  PlannerOptions options = Unlimited();
  options.sub_batches = planned.plan.sub_batches;
  options.offload_params = false;
  const absl::StatusOr<PeakRun> unlimited = Run(Sized(n), options);
  if (absl::IsResourceExhausted(unlimited.status())) return kept;
  RETURN_IF_ERROR(unlimited.status());
  kept.unlimited_images_per_second = unlimited->trial.images_per_second;
  kept.is_unlimited_measured = true;
  return kept;
}

int64_t PeakFinder::Least() const {
  const absl::StatusOr<Graph> graph = Sized(1).Build();
  return graph.ok() && absl::IsInvalidArgument(programs_.Of(*graph).status()) ? 2 : 1;
}

absl::StatusOr<bool> PeakFinder::MaySplit() const {
  ASSIGN_OR_RETURN(const bool may_choose,
                   MayChooseSubBatches(programs_.Asked(), peak_.target.description));
  if (!may_choose) return false;
  const int64_t images = peak_.growth.least * choice_.sub_batches;  // one or two in each part
  const absl::StatusOr<Graph> graph = Sized(IsBatch() ? images : peak_.growth.least).Build();
  if (!graph.ok()) return false;  // the batch must be too large
  const absl::StatusOr<Program> program = programs_.Of(*graph);
  if (absl::IsInvalidArgument(program.status())) return false;
  RETURN_IF_ERROR(program.status());
  return program->steps.size() <= kMaxStepsOfChoice;
}

absl::StatusOr<bool> PeakFinder::MayOffload() const {
  if (!peak_.growth.tries_offloading) return false;
  ASSIGN_OR_RETURN(const bool may_choose,
                   MayChooseOffloading(programs_.Asked(), peak_.target.description));
  if (!may_choose) return false;
  ASSIGN_OR_RETURN(const Graph graph, Sized(peak_.growth.least).Build());
  ASSIGN_OR_RETURN(const Program program, programs_.Of(graph));
  const int64_t bytes = OffloadableParamBytes(program);
  return bytes > 0 && bytes <= programs_.Asked().host_budget_bytes - HostBytes(program);
}

absl::StatusOr<bool> PeakFinder::Reaches(int64_t n) const {
  ASSIGN_OR_RETURN(const SizeFit fit, sizes_.Fit(n));
  if (!fit.fits) return false;
  if (fit.fits_host && !peak_.flags.keep_percent.has_value()) return true;
  const absl::StatusOr<PlanResult> planned = PlanAt(n, programs_.Options());
  if (absl::IsResourceExhausted(planned.status())) return false;
  RETURN_IF_ERROR(planned.status());
  if (!peak_.flags.keep_percent.has_value()) return true;
  ASSIGN_OR_RETURN(const KeptSpeed speed, SpeedOf(n, *planned));
  return speed.Percent() >= *peak_.flags.keep_percent;
}

absl::StatusOr<PeakSearch> PeakFinder::Grow(int64_t from) const {
  const auto start = std::chrono::steady_clock::now();
  PeakSearch search = {.largest = from};
  for (int64_t n = from + std::max<int64_t>(1, from / kMinGain); n <= peak_.growth.most; n *= 2) {
    ++search.probes;
    ASSIGN_OR_RETURN(const bool reaches, Reaches(n));
    if (!reaches) break;
    search.largest = n;
  }
  search.elapsed_ms = MillisecondsSince(start);
  return search;
}

absl::StatusOr<PeakResult> PeakFinder::Find(int64_t from) const {
  RETURN_IF_ERROR(Sized(1).Build().status());
  PeakResult result = {.what = peak_.growth.what};
  ASSIGN_OR_RETURN(const LargestSize found, sizes_.Largest(from));
  result.search = found.search;
  const bool keeps_speed = peak_.flags.keep_percent.has_value();
  const bool may_wait = result.search.largest > 0 && found.fits_host && !keeps_speed;
  if (!may_wait) RETURN_IF_ERROR(PlanLargest(from, result));
  if (keeps_speed) RETURN_IF_ERROR(Keep(from, result));
  return result;
}

absl::Status PeakFinder::Complete(PeakResult& result) const {
  if (!result.is_planned) RETURN_IF_ERROR(PlanLargest(0, result));
  const int64_t n = result.search.largest;
  result.measured_with = MeasuredWith(peak_.target, result.planned.stats);
  result.placeholder_engines = PlaceholderEngines(peak_.target, result.planned.stats);
  result.at_most_size = n == peak_.growth.most || !Sized(n + 1).Build().ok();
  const NetFlags found = Sized(n);
  result.batch = *found.options.batch;
  result.depth = found.options.depth;
  ASSIGN_OR_RETURN(result.natural, NaturalAt(n));
  return absl::OkStatus();
}

// The whole batch may be more than kernels have indices for, so no engines are listed.
absl::StatusOr<NaturalPeaks> PeakFinder::NaturalAt(int64_t n) const {
  const SizedPrograms whole(peak_, {});
  ASSIGN_OR_RETURN(const Graph graph, whole.Build("planning", Sized(n)));
  ASSIGN_OR_RETURN(const Program program, whole.Of(graph));
  DefaultCatalog without_workspaces;
  const auto peak = [&](const PlannerOptions& options) {
    return MinimumBudget(program, options, peak_.target.description, without_workspaces);
  };
  NaturalPeaks natural;
  ASSIGN_OR_RETURN(natural.keep_all_bytes, peak({.policy = "keep-all", .in_place = false}));
  ASSIGN_OR_RETURN(natural.liveness_bytes, peak({.policy = "liveness"}));
  return natural;
}

absl::Status PeakFinder::Confirm(PeakResult& result) const {
  ASSIGN_OR_RETURN(result.run, RunAtMost(result.search.largest));
  if (result.kept.has_value()) {
    ASSIGN_OR_RETURN(result.measured_kept, MeasureKept(*result.run));
  }
  if (!peak_.flags.compared_batch.has_value()) return absl::OkStatus();
  NetFlags compared = peak_.flags.net;
  compared.name = peak_.net;
  compared.options.batch = peak_.flags.compared_batch;
  ASSIGN_OR_RETURN(result.compared, Run(std::move(compared), programs_.Asked()));
  return absl::OkStatus();
}

// The device may have less free memory than the budget, and evaluation must fit as well. If the
// size is refused, a size that is smaller by a fiftieth is tried, and so on.
absl::StatusOr<PeakRun> PeakFinder::RunAtMost(int64_t n) const {
  constexpr int64_t kPart = 50;
  for (int64_t refused = 0;; ++refused) {
    const NetFlags sized = Sized(n);
    PlannerOptions options = programs_.Options();
    options.sub_batches = programs_.SubBatchesOf(*sized.options.batch);
    absl::StatusOr<PeakRun> run = Run(sized, options);
    if (run.ok()) run->refused = refused;
    if (!absl::IsResourceExhausted(run.status())) return run;
    n -= std::max<int64_t>(1, n / kPart);
    if (n < peak_.growth.least) return run;
  }
}

absl::StatusOr<PeakRun> PeakFinder::Run(const NetFlags& net, const PlannerOptions& options) const {
  ASSIGN_OR_RETURN(const Graph graph, programs_.Build("training", net));
  ASSIGN_OR_RETURN(const TrialRun trial, RunTrial(graph, *peak_.target.device, options,
                                                  peak_.flags.steps, peak_.flags.optimizer.Get()));
  return PeakRun{.trial = trial, .depth = net.options.depth};
}

}  // namespace neap::apps
