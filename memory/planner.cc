#include "neap/memory/planner.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "neap/core/base/clock.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/plan/budget_refusal.h"
#include "neap/core/plan/cost_model.h"
#include "neap/core/plan/describe_program.h"
#include "neap/core/plan/plan_memory.h"
#include "neap/core/plan/timeline.h"
#include "neap/core/program/homes.h"
#include "neap/memory/policies/policies.h"
#include "neap/memory/program_choice.h"
#include "neap/memory/search/iteration_time.h"
#include "neap/memory/search/plan_search.h"
#include "neap/memory/sum_costs.h"
#include "neap/memory/transfer/pool_choice.h"
#include "neap/memory/transfer/pools.h"
#include "neap/memory/transfer/waits.h"

namespace neap {
namespace {

// A batch's copy that takes less than one part in this many of the iteration need not be hidden.
constexpr double kTinyPart = 1000;

// Sums of times are rounded, by less than this part of them.
constexpr double kRounding = 1e-9;

// Fills in the totals that follow from the plan's actions.
void FillTotals(const Candidate& candidate, PlanResult& result) {
  Plan& plan = result.plan;
  PlanningStats& stats = result.stats;
  for (const StepMemory& memory : MemoryPerStep(plan)) {
    plan.peak_activation_bytes = std::max(plan.peak_activation_bytes, memory.live_activation_bytes);
  }
  const auto pool_peaks = PoolPeakBytes(plan);
  plan.host_peak_bytes = pool_peaks[static_cast<size_t>(Pool::kHost)];
  plan.peer_peak_bytes = pool_peaks[static_cast<size_t>(Pool::kPeer)];
  for (const Stay& stay : candidate.residency.stays)
    stats.in_place_tensors += stay.replaces.has_value() ? 1 : 0;
}

// The policy that a refusal names if it can be planned. It contains the policies with the smallest
// budgets, and those that move nothing.
constexpr std::string_view kFallbackPolicy = "auto";

// The options, with the default policy if they name none.
PlannerOptions WithPolicy(PlannerOptions options, bool has_budget) {
  if (options.policy.empty()) options.policy = DefaultPolicy(has_budget);
  return options;
}

// One plan in the making. The options name a policy.
class Planning {
 public:
  Planning(const Program& program, const PlannerOptions& options, const DeviceDescription& device)
      : program_(program), options_(options), device_(device) {}

  // A refusal for lack of memory ends with a policy that can be planned, if there is one. There is
  // no plan if no likely iteration takes less than `limit_ms`, with the batch's copy.
  absl::StatusOr<PlanAttempt> Make(double limit_ms, EngineCatalog& catalog) const {
    const auto start = std::chrono::steady_clock::now();
    ASSIGN_OR_RETURN(const Policy policy, CheckedPolicy());
    ASSIGN_OR_RETURN(PlanSearch search, PlanSearch::Create(program_, policy, options_, device_,
                                                           catalog, SearchPurpose::kMinimum));
    PlanAttempt attempt = {.kernels_ms = 1e-3 * search.fastest_us(),
                           .engines_ms = search.engines_ms()};
    if (attempt.kernels_ms >= limit_ms) return attempt;
    const Candidate smallest = search.Smallest();
    if (options_.budget_bytes < smallest.arena_bytes) {
      attempt.refusal = WithFallbackPolicy(TooSmall(smallest, policy), catalog);
      return attempt;
    }
    RETURN_IF_ERROR(search.AddOrdersForPlan(catalog));
    attempt.engines_ms = search.engines_ms();
    ASSIGN_OR_RETURN(std::optional<PlanResult> result,
                     Fastest(search, smallest, policy, 1e3 * limit_ms));
    if (!result.has_value() || IterationMs(*result) >= limit_ms) return attempt;
    const absl::Status on_host = CheckHostBudget(result->plan);
    if (!on_host.ok()) {
      attempt.refusal = WithFallbackPolicy(on_host, catalog);
      return attempt;
    }
    PlanningStats& stats = result->stats;
    stats.minimum_budget_bytes = smallest.arena_bytes;
    stats.placement_lower_bound = smallest.lower_bound_bytes;
    stats.layerwise = search.layerwise();
    if (options_.budget_bytes != kUnlimited)
      stats.time_bound_ms = 1e-3 * search.TimeBoundUs(options_.budget_bytes);
    stats.engines_ms = search.engines_ms();
    stats.planning_ms = MillisecondsSince(start) - stats.engines_ms;
    attempt.plan = std::move(result);
    return attempt;
  }

  absl::StatusOr<int64_t> Minimum(EngineCatalog& catalog) const {
    ASSIGN_OR_RETURN(const Candidate smallest, Smallest(catalog));
    return smallest.arena_bytes;
  }

  absl::StatusOr<BudgetFit> Fit(EngineCatalog& catalog) const {
    ASSIGN_OR_RETURN(const Policy policy, CheckedPolicy());
    ASSIGN_OR_RETURN(PlanSearch search, PlanSearch::Create(program_, policy, options_, device_,
                                                           catalog, SearchPurpose::kFit));
    ASSIGN_OR_RETURN(const Candidate closest, search.Closest(options_.budget_bytes, catalog));
    BudgetFit fit = {.fits = closest.arena_bytes <= options_.budget_bytes,
                     .bound_bytes = closest.lower_bound_bytes};
    if (fit.fits) {
      ASSIGN_OR_RETURN(fit.fits_host, HostHasRoom(search, closest));
    }
    return fit;
  }

 private:
  // With bytes for the incoming batch, unless the iteration takes longer with them than it does
  // without them and with the batch's copy before it. In a budget they are not worth a second
  // search where that copy takes a tiny part of the iteration. Without a budget, the bytes must
  // also fit into the device's memory. What is feasible without them stays so.
  // Maybe none if it takes as long as `limit_us`, with the batch's copy, or is not a likely one.
  absl::StatusOr<std::optional<PlanResult>> Fastest(const PlanSearch& search,
                                                    const Candidate& smallest, const Policy& policy,
                                                    double limit_us) const {
    const int64_t incoming = IncomingBatchBytes();
    if (incoming == 0 || smallest.arena_bytes > Without(incoming))
      return Within(search, smallest, policy, 0, limit_us);
    const double copy_us =
        1e6 * BatchFromHostSeconds(DescribeProgram(program_, device_), TransferCosts(device_));
    const bool is_tiny = kTinyPart * copy_us < search.fastest_us();
    if (is_tiny && options_.budget_bytes != kUnlimited)
      return Within(search, smallest, policy, 0, limit_us);
    ASSIGN_OR_RETURN(std::optional<PlanResult> ahead,
                     Within(search, smallest, policy, incoming, limit_us));
    if (options_.budget_bytes == kUnlimited) {
      if (ahead.has_value() && FitsDevice(ahead->plan)) return ahead;
      return Within(search, smallest, policy, 0, limit_us);
    }
    if (ahead.has_value() && CheckHostBudget(ahead->plan).ok()) {
      const double ahead_us = 1e3 * IterationMs(*ahead);
      if (ahead_us <= search.fastest_us() + copy_us) return ahead;
      limit_us = std::min(limit_us, (1 + kRounding) * ahead_us);
    } else {
      ahead.reset();
    }
    ASSIGN_OR_RETURN(std::optional<PlanResult> before,
                     Within(search, smallest, policy, 0, limit_us - copy_us));
    if (!ahead.has_value()) return before;
    if (!before.has_value() || !CheckHostBudget(before->plan).ok()) return ahead;
    return std::move(IterationMs(*ahead) <= IterationMs(*before) ? ahead : before);
  }

  // The fastest plan that leaves `incoming` bytes of the budget to the incoming batch; maybe none
  // if it takes as long as `limit_us` or is not a likely one.
  absl::StatusOr<std::optional<PlanResult>> Within(const PlanSearch& search,
                                                   const Candidate& smallest, const Policy& policy,
                                                   int64_t incoming, double limit_us) const {
    ASSIGN_OR_RETURN(const std::optional<Candidate> best,
                     search.BestBelow(limit_us, smallest, Without(incoming)));
    if (!best.has_value()) return std::nullopt;
    ASSIGN_OR_RETURN(PlanResult result, Finish(*best, policy, incoming));
    return result;
  }

  int64_t Without(int64_t bytes) const {
    return options_.budget_bytes == kUnlimited ? kUnlimited : options_.budget_bytes - bytes;
  }

  // The bytes that a batch needs to arrive during the iteration before; 0 if it cannot, or need
  // not. A caller who gives gradients has no batch before the iteration has ended.
  int64_t IncomingBatchBytes() const {
    if (program_.Pauses()) return 0;
    if (!device_.has_own_memory || !IsExact() || program_.options.mode != Mode::kTraining) return 0;
    int64_t bytes = 0;
    for (const Tensor& tensor : program_.tensors)
      bytes += IsBatch(tensor.role) ? RoundUp(tensor.spec.size_bytes(), kBlockBytes) : 0;
    return bytes;
  }

  // True if the device's memory is unknown.
  bool FitsDevice(const Plan& plan) const {
    return device_.memory_bytes == 0 || plan.arena_bytes <= device_.memory_bytes;
  }

  static double IterationMs(const PlanResult& result) {
    return result.plan.predicted_ms + result.stats.batch_copy_ms;
  }

  absl::StatusOr<Policy> CheckedPolicy() const {
    if (program_.options.offload_params && !IsExact()) {
      return absl::InvalidArgumentError(
          "parameters cannot be offloaded in the paper's accounting, which does not count them");
    }
    if (options_.peer_budget_bytes > 0 && device_.peer_bandwidth <= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("a peer budget of ", options_.peer_budget_bytes, " bytes (",
                       FormatBytes(options_.peer_budget_bytes), "), but ", device_.name,
                       " has no peer: open it with another GPU as one (--peer cuda:N)"));
    }
    ASSIGN_OR_RETURN(const Policy policy, FindPolicy(options_.policy));
    if (!HasRoomFor(policy, options_)) {
      return absl::InvalidArgumentError(
          absl::StrCat("policy ", options_.policy, " moves tensors, but ", WhyNothingMoves()));
    }
    if (!options_.has_room_outside() && HostBytes(program_) > 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "parameters or other tensors are to be kept on the host, but ", WhyNothingMoves()));
    }
    return policy;
  }

  // The reason, for options that leave no room outside the arena.
  std::string WhyNothingMoves() const {
    if (device_.has_own_memory) return "the host budget is 0 bytes (--host-budget)";
    return "nothing moves to the host, because that is the same memory, unless there is a host "
           "budget above 0 bytes (--host-budget)";
  }

  bool IsExact() const { return program_.options.accounting == Accounting::kExact; }

  absl::Status TooSmall(const Candidate& smallest, const Policy& policy) const {
    const bool is_short_of_room = policy.needs_based() && !options_.has_room_outside();
    const std::string step = program_.StepName(program_.steps[smallest.busiest_step.index()]);
    const std::string message = absl::StrCat(
        "a budget of ", options_.budget_bytes, " bytes (", FormatBytes(options_.budget_bytes),
        ") is too small for ", program_.net.name, " at batch ", program_.net.batch, " with policy ",
        options_.policy, ": step ", smallest.busiest_step.value + 1, " (", step, ") needs ",
        smallest.busiest_bytes, " bytes; the smallest feasible budget is ", smallest.arena_bytes,
        " bytes (", FormatBytes(smallest.arena_bytes), ")",
        is_short_of_room ? absl::StrCat("; ", WhyNothingMoves()) : "");
    return BudgetRefusal(message, smallest.arena_bytes);
  }

  // The candidate with the smallest arena. Where tensors may move, much faster than a plan.
  absl::StatusOr<Candidate> Smallest(EngineCatalog& catalog) const {
    ASSIGN_OR_RETURN(const Policy policy, CheckedPolicy());
    ASSIGN_OR_RETURN(
        const PlanSearch search,
        PlanSearch::Create(program_, policy, options_, device_, catalog, SearchPurpose::kMinimum));
    return search.Smallest();
  }

  absl::StatusOr<bool> HostHasRoom(const PlanSearch& search, const Candidate& placed) const {
    if (CopiedBytes(program_, placed) <= options_.host_budget_bytes) return true;
    ASSIGN_OR_RETURN(const Candidate written, search.Write(placed, options_.budget_bytes));
    Plan plan = DescribeProgram(program_, device_);
    plan.actions = written.written.actions;
    ChoosePools(options_.peer_budget_bytes, plan);
    LayOutPools(plan);
    return CheckHostBudget(plan).ok();
  }

  // The policy's minimum if it can be planned. Where the host may have too little memory for the
  // smallest plan, only a search tells.
  std::optional<int64_t> MinimumIfPlanned(EngineCatalog& catalog) const {
    const absl::StatusOr<Candidate> smallest = Smallest(catalog);
    if (!smallest.ok() || smallest->arena_bytes > options_.budget_bytes) return std::nullopt;
    const bool fits_host = CopiedBytes(program_, *smallest) <= options_.host_budget_bytes;
    if (fits_host) return smallest->arena_bytes;
    const absl::StatusOr<PlanAttempt> attempt = Make(kNoTimeLimit, catalog);
    if (!attempt.ok() || !attempt->refusal.ok()) return std::nullopt;
    return smallest->arena_bytes;
  }

  // The refusal, with the policy that can be planned by the same options, if it can.
  absl::Status WithFallbackPolicy(const absl::Status& refusal, EngineCatalog& catalog) const {
    if (options_.policy == kFallbackPolicy || !options_.suggest_policy) return refusal;
    PlannerOptions options = options_;
    options.policy = kFallbackPolicy;
    const std::optional<int64_t> minimum =
        Planning(program_, options, device_).MinimumIfPlanned(catalog);
    if (!minimum.has_value()) return refusal;
    const std::string message =
        absl::StrCat(refusal.message(), "; policy ", options.policy, " fits, also in ", *minimum,
                     " bytes (", FormatBytes(*minimum), ")");
    const std::optional<int64_t> smallest = SmallestBudget(refusal);
    if (smallest.has_value()) return BudgetRefusal(message, *smallest);
    return absl::ResourceExhaustedError(message);
  }

  absl::StatusOr<PlanResult> Finish(const Candidate& candidate, const Policy& policy,
                                    int64_t incoming) const {
    const WrittenActions& written = candidate.written;
    PlanResult result;
    Plan& plan = result.plan;
    plan = DescribeProgram(program_, device_);
    plan.policy = policy.name;
    plan.peak_bytes = written.peak_bytes + incoming;
    plan.budget_bytes =
        options_.budget_bytes == kUnlimited ? plan.peak_bytes : options_.budget_bytes;
    plan.arena_bytes = plan.peak_bytes;
    if (incoming > 0) plan.incoming_batch = Region{written.peak_bytes, incoming};
    plan.actions = written.actions;
    ChoosePools(options_.peer_budget_bytes, plan);
    LayOutPools(plan);
    plan.actions = WithWaits(plan);
    FillTotals(candidate, result);
    result.costs = TransferCosts(device_);
    result.costs.compute_seconds = written.compute_seconds;
    plan.predicted_ms = PredictTimeline(plan, result.costs).total_us / 1e3;
    result.stats.batch_copy_ms = BatchCopySeconds(plan, result.costs) * 1e3;
    result.stats.runs = static_cast<int64_t>(written.compute_seconds.size());
    result.sources = written.sources;
    const auto known_as = [&](TimeSource source) {
      return std::count(result.sources.begin(), result.sources.end(), source);
    };
    result.stats.measured_runs = known_as(TimeSource::kMeasured);
    result.stats.interpolated_runs = known_as(TimeSource::kInterpolated);
    return result;
  }

  absl::Status CheckHostBudget(const Plan& plan) const {
    if (plan.host_pool_bytes <= options_.host_budget_bytes) return absl::OkStatus();
    return absl::ResourceExhaustedError(
        absl::StrCat("a host budget of ", options_.host_budget_bytes, " bytes (",
                     FormatBytes(options_.host_budget_bytes), ") is too small for ",
                     program_.net.name, " at batch ", program_.net.batch, " with policy ",
                     options_.policy, ": its tensors take ", plan.host_pool_bytes, " bytes (",
                     FormatBytes(plan.host_pool_bytes), ") of pinned host memory"));
  }

  const Program& program_;
  const PlannerOptions& options_;
  const DeviceDescription& device_;
};

}  // namespace

bool HasRoomFor(const Policy& policy, const PlannerOptions& options) {
  return options.has_room_outside() || !policy.always_moves();
}

absl::StatusOr<PlanAttempt> AttemptPlan(double limit_ms, const Program& program,
                                        const PlannerOptions& options,
                                        const DeviceDescription& device, EngineCatalog& catalog) {
  const PlannerOptions chosen = WithPolicy(options, options.budget_bytes != kUnlimited);
  const DeviceDescription among_ranks = AmongRanks(device, program, options);
  return Planning(program, chosen, among_ranks).Make(limit_ms, catalog);
}

absl::StatusOr<PlanResult> MakePlan(const Program& program, const PlannerOptions& options,
                                    const DeviceDescription& device, EngineCatalog& catalog) {
  ASSIGN_OR_RETURN(PlanAttempt attempt,
                   AttemptPlan(kNoTimeLimit, program, options, device, catalog));
  RETURN_IF_ERROR(attempt.refusal);
  return *std::move(attempt.plan);
}

absl::StatusOr<int64_t> MinimumBudget(const Program& program, const PlannerOptions& options,
                                      const DeviceDescription& device, EngineCatalog& catalog) {
  const PlannerOptions chosen = WithPolicy(options, /*has_budget=*/true);
  return Planning(program, chosen, device).Minimum(catalog);
}

absl::StatusOr<bool> FitsBudget(const Program& program, const PlannerOptions& options,
                                const DeviceDescription& device, EngineCatalog& catalog) {
  ASSIGN_OR_RETURN(const BudgetFit fit, FitInBudget(program, options, device, catalog));
  return fit.fits;
}

absl::StatusOr<BudgetFit> FitInBudget(const Program& program, const PlannerOptions& options,
                                      const DeviceDescription& device, EngineCatalog& catalog) {
  const PlannerOptions chosen = WithPolicy(options, /*has_budget=*/true);
  return Planning(program, chosen, device).Fit(catalog);
}

}  // namespace neap
