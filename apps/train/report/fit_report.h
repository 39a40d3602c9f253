// The copies and recomputations in each step that make a plan fit its budget, and their time.
//
//   ASSIGN_OR_RETURN(const auto fit, FindFit(program, session.plan(), options, device, catalog));
//   if (fit.has_value()) Print(ToText(*fit));
//
// prints one line:
//
//   to fit           14.564 MiB to the host, 18.564 MiB back; predicted 36.932 ms a step (+0.3%
//                    against no budget)
//
// The percentage takes a second plan, one without a budget. It is not made if the plan moves and
// recomputes nothing and no times are measured, because the predicted time is then the same without
// a budget; nor for a plan from a file, whose prediction cannot be compared with one made here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "apps/cli/output.h"
#include "neap/core/plan/plan.h"
#include "neap/core/plan/plan_memory.h"
#include "neap/core/program/program.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/devices/device_description.h"
#include "neap/memory/planner.h"

namespace neap::apps {

struct Fit {
  Movement moved = {};
  int64_t sub_batches = 1;  // in which the batch is run (core/program/sub_batches.h)
  bool batch_norm_in_parts = false;
  std::optional<double> predicted_ms = {};            // per step, by the plan
  std::optional<double> predicted_ms_unlimited = {};  // by a plan without a budget

  // Empty if one of the two times is unknown.
  std::optional<double> slowdown() const;
};

// The time per step that a plan predicts. Empty if it is 0: the program that wrote the plan's file
// predicted none.
std::optional<double> PredictedMs(const Plan& plan);

// `plan` was made with `options`. Empty if they set no budget and the plan moves and recomputes
// nothing. Errors: those of MakePlan().
absl::StatusOr<std::optional<Fit>> FindFit(const Program& program, const Plan& plan,
                                           const PlannerOptions& options,
                                           const DeviceDescription& device, EngineCatalog& catalog);
// The same for a plan from a file, without a percentage.
std::optional<Fit> FitOfFile(const Plan& plan);

std::string ToText(const Fit& fit);
Json ToJson(const Fit& fit);

}  // namespace neap::apps
