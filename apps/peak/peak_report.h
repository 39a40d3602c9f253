// The results of `neap peak-batch` and `neap peak-depth` as a table and as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/cli/output.h"
#include "apps/cli/planning_flags.h"
#include "apps/peak/peak_finder.h"

namespace neap::apps {

struct PeakRow {
  std::string net;
  std::string policy;
  absl::StatusOr<PeakResult> result;  // an error: no size fits with this policy
};

struct PeakReport {
  std::string what;  // Growth::what
  std::string device;
  int64_t budget_bytes = 0;
  HostBudget host_budget;
  std::vector<PeakRow> rows;  // at least one
};

std::string ToText(const PeakReport& report);
Json ToJson(const PeakReport& report);

}  // namespace neap::apps
