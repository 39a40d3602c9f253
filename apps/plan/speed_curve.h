// Predicted speed against budget, for several policies: which size is practical?
//
// A plan answers for one budget and one policy. The curve plans every policy in the same few
// budgets, from the smallest one in which any of them fits to the peak of `liveness`, where nothing
// has to leave the arena, and in the natural peak, where nothing even has to be freed:
//
//   images/s
//   ^              auto  . . o------o------o
//   |         . o          chen o---+------o      a policy begins at its own minimum budget
//   |     o           o
//   |  o        o   offload
//   +--+----+----+----+-----+------+------+--> budget, in steps of about the same ratio
//   minimum                   liveness   natural peak
//
//   ASSIGN_OR_RETURN(const SpeedCurve curve,
//                    PlanSpeedCurve(program, options, {"chen", "auto"}, target));
//   curve.policies[1].points[0]->images_per_second;  // of auto in curve.budgets[0]
//
// A larger budget only adds candidates (memory/search/plan_search.h), so a plan that also fits a
// smaller budget is taken there, too: the budgets are planned from the largest down, and a plan is
// made only if the one above it does not fit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/cli/device_flag.h"
#include "neap/core/program/program.h"
#include "neap/memory/planner.h"

namespace neap::apps {

struct SpeedPoint {
  int64_t peak_bytes = 0;
  double predicted_ms = 0;
  double batch_copy_ms = 0;
  double images_per_second = 0;  // PredictedImagesPerSecond()
};

struct PolicyCurve {
  std::string policy;
  int64_t minimum_budget_bytes = 0;
  std::vector<std::optional<SpeedPoint>> points;  // by budget; nullopt if it is too small
};

struct SpeedCurve {
  std::string device;
  int64_t natural_peak_bytes = 0;
  std::vector<int64_t> budgets;       // ascending
  std::vector<PolicyCurve> policies;  // in the order asked for
  std::string measured_with;          // library versions; empty: no measured times were used
  std::string placeholder_engines;    // PlaceholderEngines(): empty if all engines are known
};

// `rungs` (>= 2) budgets from `least` to `unmoved` bytes that rise by the same ratio, and the
// natural peak. Each is rounded up to five binary digits (1.0625GiB, 72MiB), so the first is at
// least `least`. There are fewer if several are rounded to the same size.
std::vector<int64_t> BudgetLadder(int64_t least, int64_t unmoved, int64_t natural_peak, int rungs);

// All policies that the options leave room for.
std::vector<std::string> PoliciesOfCurve(const PlannerOptions& options);

// How far a curve is.
struct CurveProgress {
  std::string policy;  // planned now, in this budget
  int64_t budget_bytes = 0;
  size_t done = 0;  // of all plans
  size_t total = 0;
  double best_images_per_second = 0;  // of the policy so far; 0 before its first plan
};
// May be null.
using OnCurve = std::function<void(const CurveProgress& progress)>;

// The curves of `policies` in twelve budgets, or seven if the program has over a thousand steps.
// Every plan is verified. The options' budget and policy do not count. `on_plan` is told before
// each plan. Errors: those of MakePlan() except that a budget is too small.
absl::StatusOr<SpeedCurve> PlanSpeedCurve(const Program& program, const PlannerOptions& options,
                                          const std::vector<std::string>& policies,
                                          const PlanTarget& target, const OnCurve& on_plan = {});

}  // namespace neap::apps
