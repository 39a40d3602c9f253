#include "neap/memory/program_choice.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "neap/core/base/region.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/plan/budget_refusal.h"
#include "neap/core/program/homes.h"
#include "neap/memory/budget_bound.h"
#include "neap/memory/parts_search.h"
#include "neap/memory/planner.h"
#include "neap/memory/policies/policies.h"
#include "neap/memory/search/action_writer.h"
#include "neap/memory/smallest_program.h"
#include "neap/memory/sum_costs.h"
#include "neap/memory/transfer/residency.h"

namespace neap {
namespace {

// Parameters are on the host if that gains this part of the time. More would make some plans slower
// than those in a smaller budget, where the gain was large enough.
constexpr double kMinGain = 0.001;

// If the best plan takes more than this factor of the time of kernels alone, parameters on the host
// are tried with more numbers of parts.
constexpr double kWellAbove = 1.05;
// A number of parts that fits is sought among programs with up to so many steps, about.
constexpr int64_t kMaxStepsOfParts = 100000;
// Where doubling finds no number of parts that fits, as many that do are planned.
constexpr int kMaxPlansThatFit = 4;

// Tries numbers of parts, and then the same with parameters on the host.
class Chooser {
 public:
  Chooser(LowerWith lower, const PlannerOptions& options, const DeviceDescription& device,
          EngineCatalog& catalog)
      : lower_(lower),
        options_(options),
        device_(device),
        catalog_(catalog),
        first_({.sub_batches = options.sub_batches.value_or(1),
                .batch_norm_in_parts = options.batch_norm_in_parts,
                .offload_params = options.offload_params.value_or(false)}) {}

  absl::StatusOr<ChosenProgram> Make(bool may_split, bool may_offload) {
    const auto start = std::chrono::steady_clock::now();
    if (!may_split && !may_offload) return ChosenProgram{first_};
    // Whether there is a choice at all is found out first, because planning takes much longer.
    ASSIGN_OR_RETURN(const Program whole, lower_(first_));
    offloadable_bytes_ = OffloadableParamBytes(whole);
    may_offload_ = may_offload && offloadable_bytes_ > 0 &&
                   offloadable_bytes_ <= options_.host_budget_bytes - HostBytes(whole);
    const bool splits = may_split && IsSplit(InTwo(options_.batch_norm_in_parts));
    const bool would_split = may_split && !splits && options_.suggest_policy &&
                             IsSplit(InTwo(/*batch_norm_in_parts=*/true));
    if (!splits && !would_split && !may_offload_) return ChosenProgram{first_};
    if (whole.steps.size() > kMaxStepsOfChoice) {
      ASSIGN_OR_RETURN(const ProgramChoice fits, FirstThatFits(whole));
      return ChosenProgram{fits};
    }
    counts_ = splits ? CountsFor(whole) : std::vector<int64_t>{first_.sub_batches};
    RETURN_IF_ERROR(SearchAll());
    if (!best_.has_value()) {
      ProgramSizes sizes = Sizes(first_.batch_norm_in_parts, counts_);
      if (!PersistentBytesExceedBudget(whole)) RETURN_IF_ERROR(PlanFewThatFit(sizes));
      if (!best_.has_value()) return WhereNothingFits(whole, would_split, sizes);
    }
    const std::chrono::duration<double, std::milli> elapsed =
        std::chrono::steady_clock::now() - start;
    best_->stats.engines_ms = engines_ms_;
    best_->stats.planning_ms = elapsed.count() - engines_ms_;
    return ChosenProgram{chosen_, std::move(best_)};
  }

 private:
  ProgramChoice InTwo(bool batch_norm_in_parts) const {
    ProgramChoice two = first_;
    two.sub_batches = 2;
    two.batch_norm_in_parts = batch_norm_in_parts;
    return two;
  }
  bool IsSplit(const ProgramChoice& choice) const { return lower_(choice).ok(); }

  // The numbers of parts with which the program has not too many steps; each part has about as
  // many as the whole batch.
  std::vector<int64_t> CountsFor(const Program& whole) const {
    std::vector<int64_t> counts = PartCounts(whole.net.batch);
    const auto steps = static_cast<int64_t>(whole.steps.size());
    std::erase_if(counts, [&](int64_t count) { return count * steps > kMaxStepsOfParts; });
    return counts;
  }

  // All numbers of parts, in the order of their choices: on the device, and then on the host.
  absl::Status SearchAll() {
    const auto attempt = [this](bool offload_params) {
      return [this, offload_params](int64_t count) { return Attempt(count, offload_params); };
    };
    ASSIGN_OR_RETURN(const int64_t start, CountWithoutMoves());
    RETURN_IF_ERROR(SearchParts(counts_, {.start = start}, attempt(first_.offload_params)));
    if (may_offload_) {
      PartsSearchOptions search = {
          .best_ms = (1 - kMinGain) * BestMs(), .max_misses = 1, .max_refinements = 0};
      if (BestMs() > kWellAbove * kernels_ms_) search.max_misses = search.max_refinements = 2;
      RETURN_IF_ERROR(SearchParts(counts_, search, attempt(true)));
    }
    return absl::OkStatus();
  }

  // The first power of two with which nothing has to move in the budget, if there is one.
  absl::StatusOr<int64_t> CountWithoutMoves() const {
    ProgramChoice choice = first_;
    for (int64_t power = 1; power <= counts_.back(); power *= 2) {
      choice.sub_batches = *std::lower_bound(counts_.begin(), counts_.end(), power);
      const absl::StatusOr<Program> program = lower_(choice);
      if (absl::IsInvalidArgument(program.status()) && choice != first_) continue;
      RETURN_IF_ERROR(program.status());
      if (program->steps.size() > kMaxStepsOfChoice) break;
      if (UnmovedBytes(*program, options_) <= options_.budget_bytes) return choice.sub_batches;
    }
    return counts_.front();
  }

  // Without plans, which take long: parameters are on the host only if the budget requires it.
  absl::StatusOr<ProgramChoice> FirstThatFits(const Program& whole) const {
    if (!may_offload_) return first_;
    ProgramChoice offloaded = first_;
    offloaded.offload_params = true;
    if (PersistentBytes(whole) > options_.budget_bytes) return offloaded;
    ASSIGN_OR_RETURN(const int64_t bytes, MinimumBudget(whole, options_, device_, catalog_));
    if (bytes <= options_.budget_bytes) return first_;
    ASSIGN_OR_RETURN(const Program program, lower_(offloaded));
    ASSIGN_OR_RETURN(const int64_t offloaded_bytes,
                     MinimumBudget(program, options_, device_, catalog_));
    return offloaded_bytes < bytes ? offloaded : first_;
  }

  absl::StatusOr<PartsAttempt> Attempt(int64_t count, bool offload_params) {
    using Outcome = PartsAttempt::Outcome;
    ProgramChoice choice = first_;
    choice.sub_batches = count;
    choice.offload_params = offload_params;
    const absl::StatusOr<Program> program = lower_(choice);
    // The last part may have too few images for a batch norm.
    if (absl::IsInvalidArgument(program.status()) && choice != first_) return PartsAttempt{};
    RETURN_IF_ERROR(program.status());
    if (program->steps.size() > kMaxStepsOfChoice)
      return PartsAttempt{.outcome = Outcome::kTooLong};
    return Plan(*program, choice);
  }

  absl::StatusOr<PartsAttempt> Plan(const Program& program, const ProgramChoice& choice) {
    using Outcome = PartsAttempt::Outcome;
    const double limit_ms = ShareOfBest(choice) * BestMs();
    absl::StatusOr<PlanAttempt> attempt =
        AttemptPlan(limit_ms, program, options_, device_, catalog_);
    if (absl::IsUnimplemented(attempt.status())) return PartsAttempt{};  // no indices for the batch
    RETURN_IF_ERROR(attempt.status());
    PartsAttempt found = {.kernels_ms = attempt->kernels_ms};
    kernels_ms_ = std::min(kernels_ms_, found.kernels_ms);
    engines_ms_ += attempt->engines_ms;
    if (!attempt->refusal.ok()) {
      refused_.push_back({choice, SmallestBudget(attempt->refusal)});
      return found;
    }
    found.outcome = found.kernels_ms >= limit_ms ? Outcome::kSlow : Outcome::kFits;
    if (!attempt->plan.has_value()) return found;
    const double ms = IterationMs(*attempt->plan);
    if (ms >= limit_ms) return found;
    found.ms = ms;
    best_ = std::move(attempt->plan);
    chosen_ = choice;
    return found;
  }

  // Adds the program, with its smallest budget if that is known. What does not fit the host's
  // memory has been tried.
  void AddSize(const ProgramChoice& choice, ProgramSizes& sizes) const {
    for (const auto& [refused, smallest_bytes] : refused_) {
      if (refused != choice) continue;
      if (smallest_bytes.has_value()) sizes.Add(choice, *smallest_bytes);
      return;
    }
    sizes.Add(choice);
  }
  ProgramSizes Sizes(bool batch_norm_in_parts, const std::vector<int64_t>& counts) const {
    ProgramSizes sizes(lower_, options_, device_, catalog_);
    std::vector<bool> offloads = {first_.offload_params};
    if (may_offload_) offloads.push_back(true);
    for (const bool offload_params : offloads) {
      for (const int64_t count : counts) {
        AddSize({.sub_batches = count,
                 .batch_norm_in_parts = batch_norm_in_parts,
                 .offload_params = offload_params},
                sizes);
      }
    }
    return sizes;
  }
  // Whether no number of parts can fit.
  bool PersistentBytesExceedBudget(const Program& whole) const {
    const int64_t offloaded = may_offload_ ? offloadable_bytes_ : 0;
    return PersistentBytes(whole) - offloaded > options_.budget_bytes;
  }

  // The fewest parts that fit, if none of those do that were tried, and a few more.
  absl::Status PlanFewThatFit(ProgramSizes& sizes) {
    int planned = 0;
    return sizes.VisitThoseThatFit(
        [&](const ProgramChoice& choice, const Program& program) -> absl::StatusOr<bool> {
          RETURN_IF_ERROR(Plan(program, choice).status());
          if (!best_.has_value()) return false;
          return ++planned == kMaxPlansThatFit || program.steps.size() > kMaxStepsOfChoice;
        });
  }

  // The program with the smallest budget, with which the user's budget is refused; or the refusal,
  // if batch norms keep the batch from being run in parts that fit.
  absl::StatusOr<ChosenProgram> WhereNothingFits(const Program& whole, bool would_split,
                                                 ProgramSizes& sizes) {
    ASSIGN_OR_RETURN(const std::optional<ProgramChoice> smallest, sizes.Smallest());
    const ChosenProgram chosen = {smallest.value_or(first_)};
    if (!would_split || PersistentBytesExceedBudget(whole)) return chosen;
    std::optional<int64_t> fits;
    RETURN_IF_ERROR(Sizes(/*batch_norm_in_parts=*/true, CountsFor(whole))
                        .VisitThoseThatFit([&](const ProgramChoice& choice, const Program&) {
                          fits = choice.sub_batches;
                          return absl::StatusOr<bool>(true);
                        }));
    if (!fits.has_value()) return chosen;
    ASSIGN_OR_RETURN(const Program program, lower_(chosen.choice));
    const absl::Status refusal = MakePlan(program, options_, device_, catalog_).status();
    const std::optional<int64_t> bytes = SmallestBudget(refusal);
    if (!bytes.has_value()) return chosen;
    return BudgetRefusal(
        absl::StrCat(refusal.message(), "; in ", *fits,
                     " sub-batches it fits, if batch norms may have the statistics of each part "
                     "(--batch-norm-in-parts)"),
        *bytes);
  }

  // A plan of the program is better than the best one if it takes less than this share of its time.
  double ShareOfBest(const ProgramChoice& choice) const {
    if (choice.offload_params != chosen_.offload_params) return 1 - kMinGain;
    return choice == first_ ? 1 : 1 - kMinPartsGain;
  }
  double BestMs() const {
    return best_.has_value() ? IterationMs(*best_) : std::numeric_limits<double>::infinity();
  }
  static double IterationMs(const PlanResult& result) {
    return result.plan.predicted_ms + result.stats.batch_copy_ms;
  }

  LowerWith lower_;
  const PlannerOptions& options_;
  const DeviceDescription& device_;
  EngineCatalog& catalog_;
  const ProgramChoice first_;      // without a choice
  bool may_offload_ = false;       // which `first_` then does not
  int64_t offloadable_bytes_ = 0;  // in whole blocks
  std::vector<int64_t> counts_;    // of parts
  std::optional<PlanResult> best_;
  ProgramChoice chosen_ = first_;                                // of the best plan
  double engines_ms_ = 0;                                        // of all plans
  double kernels_ms_ = std::numeric_limits<double>::infinity();  // the least of all programs
  // Programs that do not fit, and their smallest budgets if the budget is smaller.
  std::vector<std::pair<ProgramChoice, std::optional<int64_t>>> refused_;
};

// The policy that the options name, or the default.
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
                          .batch_norm_in_parts = options.batch_norm_in_parts,
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
  const HomeTable homes(program.options);
  int64_t bytes = 0;
  for (const Tensor& tensor : program.tensors) {
    if (homes.IsOffloadable(tensor)) bytes += RoundUp(tensor.spec.size_bytes(), kBlockBytes);
  }
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
    choice.batch_norm_in_parts |= options.batch_norm_in_parts;
    return choice;
  };
  const auto lower_with = [&](const ProgramChoice& choice) { return lower(with_buckets(choice)); };
  ASSIGN_OR_RETURN(ChosenProgram chosen,
                   Chooser(lower_with, options, device, catalog).Make(may_split, may_offload));
  chosen.choice = with_buckets(chosen.choice);
  return chosen;
}

}  // namespace neap
