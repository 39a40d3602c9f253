// The report page's content: the one JSON object that its script (apps/plan/report/) reads.
//
// Everything is derived from the plan and its timeline, so a plan read from a file can be shown as
// well as a new one. The page itself computes no memory, time or history; other tools can read all
// that it draws.
//
//   Json json = ReportJson(plan, timeline, {.accounting = "exact"});
//   json["runs"][3]["live_bytes"];      // at the fourth compute action
//   json["tensors"][7]["story"];        // "offloaded after relu1 forward, back before ..."
#pragma once

#include <string>
#include <vector>

#include "apps/cli/output.h"
#include "apps/plan/tensor_alternatives.h"
#include "neap/core/plan/plan.h"
#include "neap/core/plan/timeline.h"

namespace neap::apps {

struct ReportOptions {
  std::string accounting = "exact";
  bool has_budget = false;          // the user gave one; else the plan's budget is its peak
  std::vector<Plan> compared = {};  // plans of the same program for the policy chart
  std::vector<TensorAlternatives> alternatives = {};  // of the plan's program; may be empty
  Json curve = nullptr;  // ToJson(SpeedCurve) (apps/plan/curve_report.h), or null
};

// The verifier must accept `plan` and the compared plans; `timeline` must be the plan's.
Json ReportJson(const Plan& plan, const Timeline& timeline, const ReportOptions& options);

}  // namespace neap::apps
