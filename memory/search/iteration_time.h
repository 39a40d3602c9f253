// The predicted time of a candidate's iteration, with the waits that reused bytes cost.
//
// Predicting it takes most of the time where a candidate moves tensors: its places in the pools
// have to be found first. A lower bound, in which no two copies share places in a pool and none
// slows down a step, comes first and rules out most candidates.
//
//   const IterationTime times(options, device);
//   Plan scratch = DescribeProgram(program, device);
//   times.PredictedUs(written, kNoTimeLimit, scratch);
//
// *Threads*: several may use one, each with a scratch plan of its own.
#pragma once

#include <limits>
#include <vector>

#include "neap/core/device/device.h"
#include "neap/core/plan/plan.h"
#include "neap/core/plan/timeline.h"
#include "neap/memory/planner_options.h"
#include "neap/memory/search/candidate.h"

namespace neap {

inline constexpr double kNoTimeLimit = std::numeric_limits<double>::infinity();

class IterationTime {
 public:
  // *Ownership*: borrows the options.
  IterationTime(const PlannerOptions& options, const DeviceDescription& device);

  // The time of a candidate with its actions; infinite if it needs more host memory than there is.
  // If a lower bound on it is at least `best_us`, that bound. `scratch` describes the program, and
  // has some actions afterwards.
  double PredictedUs(const Candidate& candidate, double best_us, Plan& scratch) const;
  // A lower bound on the time of actions without waits: only places in the arena make them wait. A
  // plan with more waits may copy where nothing else runs, so copies slow down nothing here.
  // `compute_seconds` are those of TimelineCosts. Leaves the plan in `scratch`.
  double LeastUs(std::vector<Action> actions, std::vector<double> compute_seconds,
                 Plan& scratch) const;

 private:
  const PlannerOptions* options_;
  TimelineCosts transfers_;  // without compute_seconds, which depend on the engines
};

}  // namespace neap
