// What a plan moves and recomputes in each step to fit its budget, and the time that it costs.
//
//   ASSIGN_OR_RETURN(const auto fit, FindFit(program, session.plan(), options, device, catalog));
//   if (fit.has_value()) Print(ToText(*fit));
//
// prints one line:
//
//   to fit           14.564 MiB to the host, 18.564 MiB back; predicted 36.932 ms a step (+0.3%
//                    against no budget)
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "apps/cli/output.h"
#include "neap/core/device/device_description.h"
#include "neap/core/plan/plan.h"
#include "neap/core/plan/plan_memory.h"
#include "neap/core/program/program.h"
#include "neap/core/step/kernel.h"
#include "neap/memory/planner.h"

namespace neap::apps {

struct Fit {
  Movement moved = {};
  double predicted_ms = 0;            // per step, by the plan
  double predicted_ms_unlimited = 0;  // by a plan without a budget

  double slowdown() const { return predicted_ms / predicted_ms_unlimited; }
};

// `plan` was made with `options`. Empty if they set no budget and the plan moves and recomputes
// nothing. Errors: those of MakePlan().
absl::StatusOr<std::optional<Fit>> FindFit(const Program& program, const Plan& plan,
                                           const PlannerOptions& options,
                                           const DeviceDescription& device, EngineCatalog& catalog);

std::string ToText(const Fit& fit);
Json ToJson(const Fit& fit);

}  // namespace neap::apps
