#include "neap/memory/program_choice.h"

#include <chrono>
#include <limits>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "neap/core/base/region.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/plan/budget_refusal.h"
#include "neap/core/plan/plan_memory.h"
#include "neap/memory/action_writer.h"
#include "neap/memory/planner.h"
#include "neap/memory/policies/policies.h"
#include "neap/memory/sum_costs.h"
#include "neap/memory/transfer/residency.h"

namespace neap {
namespace {

bool MovesOrRebuilds(const Plan& plan) {
  const Movement total = TotalMovement(plan);
  return total.extra_forwards > 0 || total.offloaded_bytes > 0 || total.prefetched_bytes > 0;
}

// Predictions of plans with many copies are off by about as much, so parameters on the host must
// gain at least this part of the time.
constexpr double kMinGain = 0.01;
// Predictions by the cost model are too low by up to this factor, so a plan of which not all
// kernels were measured takes the place of a measured one only if it is faster by as much.
constexpr double kUnmeasuredFactor = 2;

// Tries 1, 2, 4, ... parts, and then parameters on the host.
class Chooser {
 public:
  Chooser(LowerWith lower, const PlannerOptions& options, const DeviceDescription& device,
          EngineCatalog& catalog)
      : lower_(lower), options_(options), device_(device), catalog_(catalog) {}

  absl::StatusOr<ChosenProgram> Make(bool may_split, bool may_offload) {
    const auto start = std::chrono::steady_clock::now();
    const ProgramChoice first = {.sub_batches = options_.sub_batches.value_or(1),
                                 .offload_params = options_.offload_params.value_or(false)};
    if (!may_split && !may_offload) return ChosenProgram{first};
    chosen_ = smallest_ = first;
    // Whether there is a choice at all is found out first, because planning takes much longer.
    absl::StatusOr<Program> split = absl::InvalidArgumentError("one part");
    if (may_split) split = lower_({.sub_batches = 2, .offload_params = first.offload_params});
    may_split = !absl::IsInvalidArgument(split.status());
    ASSIGN_OR_RETURN(const Program whole, lower_(first));
    const int64_t offloadable_bytes = OffloadableParamBytes(whole);
    may_offload =
        may_offload && offloadable_bytes > 0 && offloadable_bytes <= options_.host_budget_bytes;
    if (!may_split && !may_offload) return ChosenProgram{first};
    if (whole.steps.size() > kMaxStepsOfChoice) {
      ASSIGN_OR_RETURN(const ProgramChoice fits, FirstThatFits(whole, first, may_offload));
      return ChosenProgram{fits};
    }
    ASSIGN_OR_RETURN(const bool is_short, Try(whole, first));
    if (may_split && is_short) RETURN_IF_ERROR(TryParts(first, whole.net.batch, std::move(split)));
    if (may_offload && is_short) {
      const int64_t parts = (best_.has_value() ? chosen_ : smallest_).sub_batches;
      RETURN_IF_ERROR(TryOffloaded(first.sub_batches));
      if (parts != first.sub_batches) RETURN_IF_ERROR(TryOffloaded(parts));
    }
    if (!best_.has_value()) return ChosenProgram{smallest_};
    const std::chrono::duration<double, std::milli> elapsed =
        std::chrono::steady_clock::now() - start;
    best_->stats.engines_ms = engines_ms_;
    best_->stats.planning_ms = elapsed.count() - engines_ms_;
    return ChosenProgram{chosen_, std::move(best_)};
  }

 private:
  // `split` is the program of two parts.
  absl::Status TryParts(ProgramChoice choice, int64_t batch, absl::StatusOr<Program> split) {
    bool may_gain = true;
    while (may_gain) {
      choice.sub_batches *= 2;
      RETURN_IF_ERROR(split.status());
      if (split->steps.size() > kMaxStepsOfChoice) break;
      ASSIGN_OR_RETURN(may_gain, Try(*split, choice));
      ProgramChoice next = choice;
      next.sub_batches *= 2;
      if (batch % next.sub_batches != 0) break;
      split = lower_(next);
    }
    return absl::OkStatus();
  }

  absl::Status TryOffloaded(int64_t sub_batches) {
    const ProgramChoice choice = {.sub_batches = sub_batches, .offload_params = true};
    ASSIGN_OR_RETURN(const Program program, lower_(choice));
    return Try(program, choice).status();
  }

  // Without plans, which take long: parameters are on the host only if the budget requires it.
  absl::StatusOr<ProgramChoice> FirstThatFits(const Program& whole, const ProgramChoice& first,
                                              bool may_offload) {
    if (!may_offload) return first;
    const ProgramChoice offloaded = {.sub_batches = first.sub_batches, .offload_params = true};
    if (PersistentBytes(whole, /*offloaded_params=*/{}) > options_.budget_bytes) return offloaded;
    RETURN_IF_ERROR(NoteMinimum(whole, first));
    if (*least_bytes_ <= options_.budget_bytes) return first;
    ASSIGN_OR_RETURN(const Program program, lower_(offloaded));
    RETURN_IF_ERROR(NoteMinimum(program, offloaded));
    return smallest_;
  }

  // Whether the plan moves or rebuilds tensors, so that other programs may be faster.
  absl::StatusOr<bool> Try(const Program& program, const ProgramChoice& choice) {
    const double least_gain = choice.offload_params == chosen_.offload_params ? 0 : kMinGain;
    const double limit_ms = best_.has_value() ? (1 - least_gain) * IterationMs(*best_)
                                              : std::numeric_limits<double>::infinity();
    absl::StatusOr<std::optional<PlanResult>> result =
        MakePlanBelow(limit_ms, program, options_, device_, catalog_);
    if (absl::IsResourceExhausted(result.status())) {
      if (!best_.has_value()) RETURN_IF_ERROR(NoteMinimum(program, choice, result.status()));
      return true;
    }
    // Kernels have no indices for so many images.
    if (absl::IsUnimplemented(result.status())) return true;
    RETURN_IF_ERROR(result.status());
    if (!result->has_value()) return false;
    engines_ms_ += (*result)->stats.engines_ms;
    if (best_.has_value() && !IsFaster(**result, least_gain)) return false;
    const bool may_gain = MovesOrRebuilds((*result)->plan);
    best_ = **std::move(result);
    chosen_ = choice;
    return may_gain;
  }

  // `refusal` is that of the program's plan, if it was tried: it may tell the minimum.
  absl::Status NoteMinimum(const Program& program, const ProgramChoice& choice,
                           const absl::Status& refusal = absl::OkStatus()) {
    std::optional<int64_t> bytes = SmallestBudget(refusal);
    if (!bytes.has_value()) {
      ASSIGN_OR_RETURN(bytes, MinimumBudget(program, options_, device_, catalog_));
    }
    if (least_bytes_.has_value() && *bytes >= *least_bytes_) return absl::OkStatus();
    least_bytes_ = bytes;
    smallest_ = choice;
    return absl::OkStatus();
  }

  bool IsFaster(const PlanResult& result, double least_gain) const {
    const bool comparable = IsMeasured(result) || !IsMeasured(*best_);
    const double most_ms = IterationMs(*best_) / (comparable ? 1 : kUnmeasuredFactor);
    return IterationMs(result) < (1 - least_gain) * most_ms;
  }
  static double IterationMs(const PlanResult& result) {
    return result.plan.predicted_ms + result.stats.batch_copy_ms;
  }
  // Updates are few and short, and databases of earlier versions have only those of several layers
  // at once, which programs with parameters on the host do not have.
  static bool IsMeasured(const PlanResult& result) {
    size_t run = 0;
    for (const Action& action : result.plan.actions) {
      const auto* const compute = std::get_if<ComputeAction>(&action);
      if (compute == nullptr) continue;
      const bool is_update = result.plan.steps[compute->step.index()].phase == Phase::kUpdate;
      if (!result.is_measured[run++] && !is_update) return false;
    }
    return true;
  }

  LowerWith lower_;
  const PlannerOptions& options_;
  const DeviceDescription& device_;
  EngineCatalog& catalog_;
  std::optional<PlanResult> best_;
  double engines_ms_ = 0;               // of all plans
  std::optional<int64_t> least_bytes_;  // of the plans that do not fit
  ProgramChoice chosen_;                // of the best plan
  ProgramChoice smallest_;              // of the plan with the least bytes
};

// That of the options, or the one that is meant if they name none.
absl::StatusOr<Policy> PolicyOf(const PlannerOptions& options) {
  const bool has_budget = options.budget_bytes != kUnlimited;
  return FindPolicy(options.policy.empty() ? DefaultPolicy(has_budget) : options.policy);
}

// The buckets with which an iteration without a budget takes the least time.
absl::StatusOr<BucketSizes> ChooseBuckets(LowerWith lower, const PlannerOptions& options,
                                          const DeviceDescription& device, EngineCatalog& catalog) {
  if (options.bucket_bytes.has_value()) return BucketSizes{.bucket_bytes = *options.bucket_bytes};
  if (!HasCostsOfSums(device) && options.kernels.timings == nullptr) return BucketSizes{};
  ProgramChoice choice = {.sub_batches = options.sub_batches.value_or(1),
                          .buckets_in_flight = options.buckets_in_flight};
  ASSIGN_OR_RETURN(const Program usual, lower(choice));
  const bool is_long = usual.steps.size() > kMaxStepsOfChoice;
  if (is_long || !HasCostsOfSums(AmongRanks(device, usual, options))) return BucketSizes{};
  PlannerOptions unlimited = options;
  unlimited.budget_bytes = kUnlimited;
  unlimited.policy = "liveness";
  std::optional<double> least_ms;
  BucketSizes fastest;
  for (const BucketSizes& buckets : kBucketChoices) {
    // Updates would wait for the last of two buckets, and gradients with them.
    if (options.buckets_in_flight > 0 && buckets.bucket_bytes == kUnlimited) continue;
    choice.buckets = buckets;
    ASSIGN_OR_RETURN(const Program program, lower(choice));
    ASSIGN_OR_RETURN(const PlanResult result, MakePlan(program, unlimited, device, catalog));
    if (least_ms.has_value() && result.plan.predicted_ms >= *least_ms) continue;
    least_ms = result.plan.predicted_ms;
    fastest = buckets;
  }
  return fastest;
}

}  // namespace

int64_t OffloadableParamBytes(const Program& program) {
  if (program.options.accounting == Accounting::kPaper) return 0;
  const std::vector<bool> offloadable = OffloadableParams(program);
  int64_t bytes = 0;
  for (const Tensor& tensor : program.tensors)
    bytes += offloadable[tensor.id.index()] ? RoundUp(tensor.spec.size_bytes(), kBlockBytes) : 0;
  return bytes;
}

absl::StatusOr<bool> MayChooseSubBatches(const PlannerOptions& options,
                                         const DeviceDescription& device) {
  const bool has_budget = options.budget_bytes != kUnlimited;
  if (options.sub_batches.has_value() || !has_budget || options.strict || device.kind == "cpu")
    return false;
  ASSIGN_OR_RETURN(const Policy policy, PolicyOf(options));
  return policy.may_split_batch;
}

absl::StatusOr<bool> MayChooseOffloading(const PlannerOptions& options,
                                         const DeviceDescription& device) {
  const bool has_budget = options.budget_bytes != kUnlimited;
  if (options.offload_params.has_value() || !has_budget || !device.has_own_memory) return false;
  ASSIGN_OR_RETURN(const Policy policy, PolicyOf(options));
  return policy.may_offload_params;
}

absl::StatusOr<ChosenProgram> ChooseProgram(LowerWith lower, const PlannerOptions& options,
                                            const DeviceDescription& device,
                                            EngineCatalog& catalog) {
  ASSIGN_OR_RETURN(const bool may_split, MayChooseSubBatches(options, device));
  ASSIGN_OR_RETURN(const bool may_offload, MayChooseOffloading(options, device));
  ASSIGN_OR_RETURN(const BucketSizes buckets, ChooseBuckets(lower, options, device, catalog));
  const auto with_buckets = [&](ProgramChoice choice) {
    choice.buckets = buckets;
    choice.buckets_in_flight = options.buckets_in_flight;
    return choice;
  };
  const auto lower_with = [&](const ProgramChoice& choice) { return lower(with_buckets(choice)); };
  ASSIGN_OR_RETURN(ChosenProgram chosen,
                   Chooser(lower_with, options, device, catalog).Make(may_split, may_offload));
  chosen.choice = with_buckets(chosen.choice);
  return chosen;
}

}  // namespace neap
