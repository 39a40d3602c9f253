// What `neap peak-batch` and `neap peak-depth` have found, as a table and as JSON.
#pragma once

#include <string>
#include <vector>

#include "apps/cli/output.h"
#include "apps/peak/peak_finder.h"

namespace neap::apps {

// One row for each; at least one.
std::string ToText(const std::vector<PeakResult>& results, const HostBudget& host_budget);
Json ToJson(const std::vector<PeakResult>& results, const HostBudget& host_budget);

// The rest of a subcommand whose flags have been read: opens the device, finds, prints.
absl::StatusOr<int> FindAndPrint(const PeakFlags& flags, const std::vector<std::string>& nets,
                                 const Growth& growth);

}  // namespace neap::apps
