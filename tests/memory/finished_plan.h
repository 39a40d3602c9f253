// The plan that the planner makes of a candidate, for tests that search for candidates themselves.
#pragma once

#include <cstdint>

#include "neap/core/device/device.h"
#include "neap/core/plan/plan.h"
#include "neap/core/program/program.h"
#include "neap/memory/search/candidate.h"

namespace neap::testing {

// With its waits and its time. `candidate` has its actions, and copies to the host only.
Plan FinishedPlan(const Program& program, const DeviceDescription& device,
                  const Candidate& candidate, int64_t budget_bytes);

// The totals that the verifier compares with the actions.
void FillTotals(Plan& plan);

}  // namespace neap::testing
