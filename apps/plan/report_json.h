// What the report page shows, as the one JSON object that its script reads (apps/report/).
//
// Everything comes from the plan and its timeline, so a plan read from a file can be shown as well
// as one just made. The page computes no memory, no time and no fate: what it draws, others can
// read.
//
//   Json json = ReportJson(plan, timeline, {.accounting = "exact"});
//   json["runs"][3]["live_bytes"];      // of the fourth compute action
//   json["tensors"][7]["story"];        // "offloaded after relu1 forward, back before ..."
#pragma once

#include <string>
#include <vector>

#include "apps/cli/output.h"
#include "neap/core/plan/plan.h"
#include "neap/core/plan/timeline.h"

namespace neap::apps {

struct ReportOptions {
  std::string accounting = "exact";
  bool has_budget = false;          // the user gave one: the plan's is not just its peak
  std::vector<Plan> compared = {};  // of the same program, for the chart of policies
};

// `plan` and those compared must be ones that the verifier accepts, `timeline` the plan's.
Json ReportJson(const Plan& plan, const Timeline& timeline, const ReportOptions& options);

}  // namespace neap::apps
