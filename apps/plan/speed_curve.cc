#include "apps/plan/speed_curve.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "apps/cli/measured_device.h"
#include "apps/cli/planning_flags.h"
#include "apps/cli/predicted_speed.h"
#include "neap/core/base/region.h"
#include "neap/core/base/status_macros.h"
#include "neap/core/verifier/verifier.h"
#include "neap/memory/policies/policies.h"

namespace neap::apps {
namespace {

// Budgets of equal ratio; the natural peak is one more. A deep network takes long to plan.
constexpr size_t kManySteps = 1000;
constexpr int kRungs = 11;
constexpr int kRungsOfManySteps = 6;
constexpr int64_t kParts = 16;  // of a power of two: five binary digits

int64_t RoundedUp(int64_t bytes) {
  const auto power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(bytes)));
  return RoundUp(bytes, std::max(kBlockBytes, power / kParts));
}

class CurvePlanning {
 public:
  CurvePlanning(const Program& program, const PlannerOptions& options, const PlanTarget& target,
                const OnCurve& on_plan)
      : program_(program), options_(options), target_(target), on_plan_(on_plan) {}

  absl::StatusOr<SpeedCurve> Make(const std::vector<std::string>& policies) {
    ASSIGN_OR_RETURN(const NaturalPeaks peaks,
                     FindNaturalPeaks(program_, options_, target_.description, target_.engines()));
    curve_.device = target_.description.name;
    curve_.natural_peak_bytes = peaks.keep_all_bytes;
    int64_t least = kUnlimited;
    for (const std::string& policy : policies) {
      options_.policy = policy;
      ASSIGN_OR_RETURN(const int64_t minimum,
                       MinimumBudget(program_, options_, target_.description, target_.engines()));
      curve_.policies.push_back({.policy = policy, .minimum_budget_bytes = minimum});
      least = std::min(least, minimum);
    }
    const int rungs = program_.steps.size() > kManySteps ? kRungsOfManySteps : kRungs;
    curve_.budgets = BudgetLadder(least, peaks.liveness_bytes, peaks.keep_all_bytes, rungs);
    progress_.total = curve_.policies.size() * curve_.budgets.size();
    for (PolicyCurve& policy : curve_.policies) {
      RETURN_IF_ERROR(FindPoints(policy));
      progress_.done += curve_.budgets.size();
    }
    return std::move(curve_);
  }

 private:
  absl::Status FindPoints(PolicyCurve& curve) {
    options_.policy = curve.policy;
    curve.points.resize(curve_.budgets.size());
    CurveProgress now = progress_;
    now.policy = curve.policy;
    for (size_t i = curve_.budgets.size(); i-- > 0;) {
      const int64_t budget = curve_.budgets[i];
      if (budget < curve.minimum_budget_bytes) break;
      if (i + 1 < curve.points.size() && curve.points[i + 1].has_value() &&
          curve.points[i + 1]->peak_bytes <= budget) {
        curve.points[i] = curve.points[i + 1];
        continue;
      }
      now.done = progress_.done + curve_.budgets.size() - 1 - i;
      now.budget_bytes = budget;
      if (on_plan_ != nullptr) on_plan_(now);
      ASSIGN_OR_RETURN(curve.points[i], PlanIn(budget));
      if (curve.points[i].has_value()) {
        now.best_images_per_second =
            std::max(now.best_images_per_second, curve.points[i]->images_per_second);
      }
    }
    return absl::OkStatus();
  }

  // nullopt if the plan takes more host memory than there is.
  absl::StatusOr<std::optional<SpeedPoint>> PlanIn(int64_t budget) {
    options_.budget_bytes = budget;
    const absl::StatusOr<PlanResult> result =
        MakePlan(program_, options_, target_.description, target_.engines());
    if (absl::IsResourceExhausted(result.status())) return std::nullopt;
    RETURN_IF_ERROR(result.status());
    RETURN_IF_ERROR(Verify(result->plan));
    RETURN_IF_ERROR(MatchesProgram(result->plan, program_));
    if (curve_.measured_with.empty()) curve_.measured_with = MeasuredWith(target_, result->stats);
    curve_.placeholder_engines = PlaceholderEngines(target_, result->stats);
    return SpeedPoint{.peak_bytes = result->plan.peak_bytes,
                      .predicted_ms = result->plan.predicted_ms,
                      .batch_copy_ms = result->stats.batch_copy_ms,
                      .images_per_second = PredictedImagesPerSecond(*result)};
  }

  const Program& program_;
  PlannerOptions options_;
  const PlanTarget& target_;
  const OnCurve& on_plan_;
  CurveProgress progress_;  // between policies
  SpeedCurve curve_;
};

}  // namespace

std::vector<int64_t> BudgetLadder(int64_t least, int64_t unmoved, int64_t natural_peak, int rungs) {
  const double ratio = std::max(1.0, static_cast<double>(unmoved) / static_cast<double>(least));
  std::vector<int64_t> budgets;
  for (int i = 0; i < rungs; ++i) {
    const double part = static_cast<double>(i) / (rungs - 1);
    const double rung = std::round(static_cast<double>(least) * std::pow(ratio, part));
    budgets.push_back(RoundedUp(static_cast<int64_t>(rung)));
  }
  budgets.push_back(RoundedUp(std::max(least, natural_peak)));
  std::sort(budgets.begin(), budgets.end());
  budgets.erase(std::unique(budgets.begin(), budgets.end()), budgets.end());
  return budgets;
}

std::vector<std::string> PoliciesOfCurve(const PlannerOptions& options) {
  std::vector<std::string> names;
  for (const Policy& policy : Policies()) {
    if (HasRoomFor(policy, options)) names.emplace_back(policy.name);
  }
  return names;
}

absl::StatusOr<SpeedCurve> PlanSpeedCurve(const Program& program, const PlannerOptions& options,
                                          const std::vector<std::string>& policies,
                                          const PlanTarget& target, const OnCurve& on_plan) {
  return CurvePlanning(program, options, target, on_plan).Make(policies);
}

}  // namespace neap::apps
