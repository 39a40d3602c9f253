#include "apps/peak/peak_finder.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_format.h"
#include "apps/cli/measured_device.h"
#include "apps/cli/outcome.h"
#include "apps/cli/predicted_speed.h"
#include "neap/core/base/clock.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/base/units.h"
#include "neap/core/program/passes.h"
#include "neap/core/program/program.h"
#include "neap/core/program/sub_batches.h"
#include "neap/core/verifier/verifier.h"
#include "neap/layers/catalog/default_catalog.h"
#include "neap/memory/program_choice.h"

namespace neap::apps {
namespace {

// More sub-batches must allow sizes that are larger by one part in so many.
constexpr int64_t kMinGain = 8;

}  // namespace

void PeakFlags::AddTo(FlagSet& flags) {
  planning.AddTo(flags, PlannedDevices(), BudgetUnits::kBytes);
  optimizer.AddMemoryTo(flags);
  flags.Add("run", "confirm the result by training at that size on the device", &run);
  flags.Add("steps", "N", "training steps, with --run",
            Integer(1, std::numeric_limits<int32_t>::max(), &steps));
  flags.Add("json", "print one JSON object", &json);
}

absl::Status PeakFlags::Check() const {
  if (compared_batch.has_value() && !run) return BadUsage("--compare-batch needs --run");
  return net.CheckEngines(planning.kernels.engines);
}

NetFlags PeakFinder::Sized(const std::string& net, int64_t n) const {
  NetFlags sized = flags_.net;
  sized.name = net;
  growth_.apply(n, sized.options);
  return sized;
}

absl::StatusOr<Graph> PeakFinder::Build(const std::string& doing, NetFlags net) const {
  if (growth_.on_size != nullptr) growth_.on_size(doing, net);
  return net.Build();
}

// Without --budget, the budget is the device's memory.
PlannerOptions PeakFinder::Asked() const {
  PlannerOptions options = flags_.planning.Options(target_.description, target_.kernels);
  options.budget_bytes = flags_.planning.budget.bytes.value_or(target_.description.memory_bytes);
  options.sub_batches = flags_.planning.sub_batches;
  return options;
}

PlannerOptions PeakFinder::Options() const {
  PlannerOptions options = Asked();
  options.sub_batches = choice_.sub_batches;
  options.offload_params = choice_.offload_params;
  options.suggest_policy = false;
  return options;
}

PlannerOptions PeakFinder::Unlimited() const {
  PlannerOptions options = Options();
  options.budget_bytes = kUnlimited;
  options.policy = "liveness";
  return options;
}

// A batch norm needs as many images in the last part as in the smallest batch.
int64_t PeakFinder::SubBatchesOf(int64_t batch) const {
  int64_t count = std::min(choice_.sub_batches, batch);
  const int64_t least = choice_.batch_norm_in_parts ? std::min(growth_.least, batch) : 1;
  while (DivideBatch(batch, count).last < least) --count;
  return count;
}

absl::StatusOr<Program> PeakFinder::ProgramOf(const Graph& graph) const {
  ProgramOptions options = PlanningFlags::Lowering(choice_);
  options.sub_batches = SubBatchesOf(graph.options().batch);
  options.optimizer = flags_.optimizer.Get();
  return Lower(graph, options, target_.description);
}

absl::StatusOr<int64_t> PeakFinder::MinimumAt(const std::string& net, int64_t n,
                                              const PlannerOptions& options) const {
  ASSIGN_OR_RETURN(const Graph graph, Build("trying", Sized(net, n)));
  ASSIGN_OR_RETURN(const Program program, ProgramOf(graph));
  return MinimumBudget(program, options, target_.description, target_.engines());
}

absl::StatusOr<bool> PeakFinder::SmallestFits(const std::string& net, int64_t n,
                                              EngineCatalog& engines) const {
  if (n < growth_.least) return false;
  const NetFlags sized = Sized(net, n);
  const absl::StatusOr<Graph> graph = Build("trying", sized);
  if (!graph.ok()) return false;  // the smallest size could be built, so this one is too large
  const absl::StatusOr<Program> program = ProgramOf(*graph);
  const absl::StatusOr<bool> fits =
      program.ok() ? neap::FitsBudget(*program, Options(), target_.description, engines)
                   : program.status();
  // Sizes beyond the kernels' index range fit no budget.
  if (*sized.options.batch > 1 && absl::IsUnimplemented(fits.status())) return false;
  return fits;
}

absl::StatusOr<bool> PeakFinder::FitsBudget(const std::string& net, int64_t n) const {
  ASSIGN_OR_RETURN(const bool fits, SmallestFits(net, n, target_.engines()));
  if (fits && growth_.on_found != nullptr) growth_.on_found("fits the budget", Sized(net, n));
  return fits;
}

absl::StatusOr<int64_t> PeakFinder::Likely(const std::string& net, int64_t from) const {
  if (target_.description.kind == "cpu") return from;
  DefaultCatalog without_workspaces;
  ASSIGN_OR_RETURN(
      const PeakSearch likely,
      FindLargest(
          growth_.most, [&](int64_t n) { return SmallestFits(net, n, without_workspaces); }, from));
  return std::max(from, likely.largest);
}

absl::StatusOr<std::optional<PlanResult>> PeakFinder::PlanIfFits(const std::string& net,
                                                                 int64_t n) const {
  ASSIGN_OR_RETURN(const bool fits, FitsBudget(net, n));
  if (!fits) return std::nullopt;
  absl::StatusOr<PlanResult> planned = PlanAt(net, n, Options());
  if (absl::IsResourceExhausted(planned.status())) return std::nullopt;
  RETURN_IF_ERROR(planned.status());
  return *std::move(planned);
}

absl::StatusOr<bool> PeakFinder::FitsBoth(const std::string& net, int64_t n) const {
  ASSIGN_OR_RETURN(const std::optional<PlanResult> planned, PlanIfFits(net, n));
  return planned.has_value();
}

absl::StatusOr<PlanResult> PeakFinder::PlanAt(const std::string& net, int64_t n,
                                              const PlannerOptions& options) const {
  ASSIGN_OR_RETURN(const Graph graph, Build("planning", Sized(net, n)));
  ASSIGN_OR_RETURN(const Program program, ProgramOf(graph));
  ASSIGN_OR_RETURN(PlanResult result,
                   MakePlan(program, options, target_.description, target_.engines()));
  RETURN_IF_ERROR(Verify(result.plan));
  RETURN_IF_ERROR(MatchesProgram(result.plan, program));
  return result;
}

absl::StatusOr<PeakResult> PeakFinder::Search(const std::string& net, int64_t from) const {
  const auto start = std::chrono::steady_clock::now();
  PeakResult result = {.what = growth_.what};
  ASSIGN_OR_RETURN(const int64_t likely, Likely(net, std::max(growth_.least, from)));
  ASSIGN_OR_RETURN(result.search,
                   FindLargest(
                       growth_.most, [&](int64_t n) { return FitsBudget(net, n); }, likely));
  result.search.elapsed_ms = MillisecondsSince(start);
  const auto plan = [&] {
    const auto planning = std::chrono::steady_clock::now();
    PlannerOptions options = Options();
    options.suggest_policy = true;  // the user reads this refusal
    absl::StatusOr<PlanResult> planned =
        PlanAt(net, std::max(result.search.largest, growth_.least), options);
    result.plan_ms = MillisecondsSince(planning);
    return planned;
  };
  absl::StatusOr<PlanResult> planned = plan();
  if (absl::IsResourceExhausted(planned.status()) && result.search.largest > growth_.least) {
    const int64_t most = result.search.largest - 1;
    ASSIGN_OR_RETURN(PeakSearch again, FindLargest(
                                           most, [&](int64_t n) { return FitsBoth(net, n); },
                                           std::clamp(from, growth_.least, most)));
    again.elapsed_ms += result.plan_ms;
    result.search = After(result.search, again);
    result.by_host = true;
    planned = plan();
  }
  ASSIGN_OR_RETURN(result.planned, std::move(planned));
  return result;
}

absl::StatusOr<PlanResult> PeakFinder::PlanUnlimited(const std::string& net, int64_t n) const {
  const int64_t batch = *Sized(net, n).options.batch;
  ProgramChoice choice = {.batch_norm_in_parts = choice_.batch_norm_in_parts};
  for (int64_t count = flags_.planning.sub_batches.value_or(1);; count *= 2) {
    choice.sub_batches = count;
    const PeakFinder finder(flags_, target_, growth_, choice);
    absl::StatusOr<PlanResult> planned = finder.PlanAt(net, batch, finder.Unlimited());
    if (count >= choice_.sub_batches || !absl::IsUnimplemented(planned.status())) return planned;
  }
}

absl::StatusOr<KeptSpeed> PeakFinder::SpeedOf(const std::string& net, int64_t n,
                                              const PlanResult& planned) const {
  ASSIGN_OR_RETURN(const PlanResult unlimited, PlanUnlimited(net, n));
  return KeptSpeed{.images_per_second = PredictedImagesPerSecond(planned),
                   .unlimited_images_per_second = PredictedImagesPerSecond(unlimited)};
}

// The minimum budget is nearly linear in the batch.
absl::StatusOr<int64_t> PeakFinder::LargestUnmoved(const std::string& net, int64_t most) const {
  ASSIGN_OR_RETURN(const int64_t least, MinimumAt(net, growth_.least, Unlimited()));
  ASSIGN_OR_RETURN(const int64_t bytes, MinimumAt(net, most, Unlimited()));
  const int64_t budget = Options().budget_bytes;
  if (bytes <= budget || bytes == least) return most;
  const double part = static_cast<double>(budget - least) / static_cast<double>(bytes - least);
  return 1 + static_cast<int64_t>(std::max(0.0, part) * static_cast<double>(most - 1));
}

absl::Status PeakFinder::KeepsTooLittle(const std::string& net) const {
  ASSIGN_OR_RETURN(const PlanResult planned, PlanAt(net, growth_.least, Options()));
  ASSIGN_OR_RETURN(const KeptSpeed speed, SpeedOf(net, growth_.least, planned));
  const int64_t budget = Options().budget_bytes;
  return absl::ResourceExhaustedError(absl::StrFormat(
      "found no batch of %s that keeps %g%% of its speed in a budget of %d bytes (%s); batch %d "
      "keeps %.1f%%",
      net, *flags_.keep_percent, budget, FormatBytes(budget), growth_.least, speed.Percent()));
}

absl::Status PeakFinder::Keep(const std::string& net, int64_t from, PeakResult& result) const {
  const int64_t most = result.search.largest;
  const PlanResult at_most = result.planned;
  ASSIGN_OR_RETURN(const int64_t likely, LargestUnmoved(net, most));
  int64_t largest = 0;  // that keeps its speed, of those tried
  const auto keeps = [&](int64_t n) -> absl::StatusOr<bool> {
    if (n < growth_.least) return false;
    const auto start = std::chrono::steady_clock::now();
    absl::StatusOr<PlanResult> planned = n == most ? at_most : PlanAt(net, n, Options());
    if (absl::IsResourceExhausted(planned.status())) return false;
    RETURN_IF_ERROR(planned.status());
    const double plan_ms = n == most ? result.plan_ms : MillisecondsSince(start);
    ASSIGN_OR_RETURN(const KeptSpeed speed, SpeedOf(net, n, *planned));
    if (speed.Percent() < *flags_.keep_percent) return false;
    if (n <= largest) return true;
    largest = n;
    if (growth_.on_found != nullptr) growth_.on_found("keeps its speed", Sized(net, n));
    result.kept = speed;
    result.plan_ms = plan_ms;
    result.planned = *std::move(planned);
    return true;
  };
  ASSIGN_OR_RETURN(const PeakSearch kept, FindLargestKept(likely, most, keeps, from));
  if (kept.largest == 0) return KeepsTooLittle(net);
  result.search = After(result.search, kept);
  result.by_speed = kept.largest < most;
  return absl::OkStatus();
}

absl::StatusOr<KeptSpeed> PeakFinder::MeasureKept(const std::string& net,
                                                  const PeakRun& run) const {
  const int64_t n = run.trial.batch;
  ASSIGN_OR_RETURN(const PlanResult planned, PlanUnlimited(net, n));
  KeptSpeed kept = {.images_per_second = run.trial.images_per_second,
                    .unlimited_images_per_second = PredictedImagesPerSecond(planned)};
  if (planned.plan.arena_bytes > target_.description.memory_bytes) return kept;
  PlannerOptions options = Unlimited();
  options.sub_batches = planned.plan.sub_batches;
  options.offload_params = false;
  const absl::StatusOr<PeakRun> unlimited = Run(Sized(net, n), options);
  if (absl::IsResourceExhausted(unlimited.status())) return kept;
  RETURN_IF_ERROR(unlimited.status());
  kept.unlimited_images_per_second = unlimited->trial.images_per_second;
  kept.is_unlimited_measured = true;
  return kept;
}

int64_t PeakFinder::Least(const std::string& net) const {
  const absl::StatusOr<Graph> graph = Sized(net, 1).Build();
  return graph.ok() && absl::IsInvalidArgument(ProgramOf(*graph).status()) ? 2 : 1;
}

absl::StatusOr<bool> PeakFinder::MaySplit(const std::string& net) const {
  ASSIGN_OR_RETURN(const bool may_choose, MayChooseSubBatches(Asked(), target_.description));
  if (!may_choose) return false;
  const int64_t images = growth_.least * choice_.sub_batches;  // one or two in each part
  const absl::StatusOr<Graph> graph = Sized(net, IsBatch() ? images : growth_.least).Build();
  if (!graph.ok()) return false;  // the batch must be too large
  const absl::StatusOr<Program> program = ProgramOf(*graph);
  if (absl::IsInvalidArgument(program.status())) return false;
  RETURN_IF_ERROR(program.status());
  return program->steps.size() <= kMaxStepsOfChoice;
}

absl::StatusOr<bool> PeakFinder::MayOffload(const std::string& net) const {
  if (!growth_.tries_offloading) return false;
  ASSIGN_OR_RETURN(const bool may_choose, MayChooseOffloading(Asked(), target_.description));
  if (!may_choose) return false;
  ASSIGN_OR_RETURN(const Graph graph, Sized(net, growth_.least).Build());
  ASSIGN_OR_RETURN(const Program program, ProgramOf(graph));
  const int64_t bytes = OffloadableParamBytes(program);
  return bytes > 0 && bytes <= Asked().host_budget_bytes;
}

absl::StatusOr<bool> PeakFinder::Reaches(const std::string& net, int64_t n) const {
  ASSIGN_OR_RETURN(const std::optional<PlanResult> planned, PlanIfFits(net, n));
  if (!planned.has_value() || !flags_.keep_percent.has_value()) return planned.has_value();
  ASSIGN_OR_RETURN(const KeptSpeed speed, SpeedOf(net, n, *planned));
  return speed.Percent() >= *flags_.keep_percent;
}

absl::StatusOr<PeakSearch> PeakFinder::Grow(const std::string& net, int64_t from) const {
  const auto start = std::chrono::steady_clock::now();
  PeakSearch search = {.largest = from};
  for (int64_t n = from + std::max<int64_t>(1, from / kMinGain); n <= growth_.most; n *= 2) {
    ++search.probes;
    ASSIGN_OR_RETURN(const bool reaches, Reaches(net, n));
    if (!reaches) break;
    search.largest = n;
  }
  search.elapsed_ms = MillisecondsSince(start);
  return search;
}

absl::StatusOr<PeakResult> PeakFinder::Find(const std::string& net, int64_t from) const {
  RETURN_IF_ERROR(Sized(net, 1).Build().status());
  ASSIGN_OR_RETURN(PeakResult result, Search(net, from));
  if (flags_.keep_percent.has_value()) RETURN_IF_ERROR(Keep(net, from, result));
  const int64_t n = result.search.largest;
  result.measured_with = MeasuredWith(target_, result.planned.stats);
  result.placeholder_engines = PlaceholderEngines(target_, result.planned.stats);
  result.at_most_size = n == growth_.most || !Sized(net, n + 1).Build().ok();
  const NetFlags found = Sized(net, n);
  result.batch = *found.options.batch;
  result.depth = found.options.depth;
  return result;
}

absl::Status PeakFinder::Confirm(const std::string& net, PeakResult& result) const {
  ASSIGN_OR_RETURN(result.run, RunAtMost(net, result.search.largest));
  if (result.kept.has_value()) {
    ASSIGN_OR_RETURN(result.measured_kept, MeasureKept(net, *result.run));
  }
  if (!flags_.compared_batch.has_value()) return absl::OkStatus();
  NetFlags compared = flags_.net;
  compared.name = net;
  compared.options.batch = flags_.compared_batch;
  ASSIGN_OR_RETURN(result.compared, Run(std::move(compared), Asked()));
  return absl::OkStatus();
}

// The device may have less free memory than the budget, and evaluation must fit as well. If the
// size is refused, a size that is smaller by a fiftieth is tried, and so on.
absl::StatusOr<PeakRun> PeakFinder::RunAtMost(const std::string& net, int64_t n) const {
  constexpr int64_t kPart = 50;
  for (int64_t refused = 0;; ++refused) {
    const NetFlags sized = Sized(net, n);
    PlannerOptions options = Options();
    options.sub_batches = SubBatchesOf(*sized.options.batch);
    absl::StatusOr<PeakRun> run = Run(sized, options);
    if (run.ok()) run->refused = refused;
    if (!absl::IsResourceExhausted(run.status())) return run;
    n -= std::max<int64_t>(1, n / kPart);
    if (n < growth_.least) return run;
  }
}

absl::StatusOr<PeakRun> PeakFinder::Run(const NetFlags& net, const PlannerOptions& options) const {
  ASSIGN_OR_RETURN(const Graph graph, Build("training", net));
  ASSIGN_OR_RETURN(const TrialRun trial,
                   RunTrial(graph, *target_.device, options, flags_.steps, flags_.optimizer.Get()));
  return PeakRun{.trial = trial, .depth = net.options.depth};
}

}  // namespace neap::apps
