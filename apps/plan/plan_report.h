// What `neap plan` has found out, as text and as JSON.
#pragma once

#include <optional>
#include <string>

#include "apps/cli/output.h"
#include "apps/cli/planning_flags.h"
#include "apps/plan/paper_comparison.h"
#include "neap/memory/planner.h"

namespace neap::apps {

struct PlanReport {
  PlanResult result = {};
  std::string placement;
  std::string accounting;
  HostBudget host_budget = {};
  std::string measured_with;    // versions of libraries; empty: by no measured times
  std::string made_up_engines;  // MadeUpEngines(): empty where the library lists all
  double verify_ms = 0;
  std::optional<PaperComparison> paper = std::nullopt;  // exact accounting only
};

// What the plan is for and what it takes.
Json PlanTotals(const Plan& plan);

std::string ToText(const PlanReport& report);
Json ToJson(const PlanReport& report, bool per_step);

// One line per compute action: its time, measured or by the cost model, memory while it runs, and
// its engine.
std::string PerStepTable(const PlanResult& result);

}  // namespace neap::apps
