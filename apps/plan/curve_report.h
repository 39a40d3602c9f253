// The curves of `neap plan --curve` as a table and as JSON, which the report page also draws.
#pragma once

#include <string>

#include "apps/cli/output.h"
#include "apps/plan/speed_curve.h"
#include "neap/core/program/program.h"

namespace neap::apps {

// One line for each policy and one column for each budget; "-" if the policy does not fit. The
// budgets are exact in the unit of the smallest one, so --budget takes them as they are printed.
std::string ToText(const SpeedCurve& curve, const GraphOptions& net);
Json ToJson(const SpeedCurve& curve, const GraphOptions& net);

}  // namespace neap::apps
