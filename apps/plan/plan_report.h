// The results of `neap plan` as text and as JSON.
#pragma once

#include <optional>
#include <string>

#include "apps/cli/output.h"
#include "apps/cli/planning_flags.h"
#include "apps/plan/paper_comparison.h"
#include "neap/core/program/program.h"
#include "neap/memory/placement/placement_method.h"
#include "neap/memory/planner.h"

namespace neap::apps {

// Times of a plan that come with neap (layers/profile/installed_profile.h).
struct InstalledUse {
  std::string versions;       // of the libraries that they were measured with
  bool same_versions = true;  // as those of the plan's engines; otherwise they are estimates
  bool alone = true;          // the database has no times of the device
};

struct PlanReport {
  PlanResult result = {};
  PlacementMethod placement = PlacementMethod::kOffline;
  std::string accounting;
  HostBudget host_budget = {};
  std::string measured_with;  // library versions; empty: no measured times were used
  std::optional<InstalledUse> installed = std::nullopt;
  std::string cost_model;           // by which times that were not measured are predicted
  std::string placeholder_engines;  // PlaceholderEngines(): empty if all engines are known
  double verify_ms = 0;
  std::optional<PaperComparison> paper = std::nullopt;  // exact accounting only
  RankShare share = {};                                 // of the rank whose plan it is
};

// The plan's subject and its totals.
Json PlanTotals(const Plan& plan);

std::string ToText(const PlanReport& report);
Json ToJson(const PlanReport& report, bool per_step);

// One line per compute action: its time (measured or from the cost model), its engine, and the
// memory while it runs.
std::string PerStepTable(const PlanResult& result);

}  // namespace neap::apps
