// The results of `neap peak-batch` and `neap peak-depth` as a table and as JSON.
#pragma once

#include <string>
#include <vector>

#include "apps/cli/output.h"
#include "apps/peak/peak_finder.h"

namespace neap::apps {

// One row per result; there is at least one.
std::string ToText(const std::vector<PeakResult>& results, const HostBudget& host_budget);
Json ToJson(const std::vector<PeakResult>& results, const HostBudget& host_budget);

// The rest of a subcommand after its flags are parsed: opens the device, searches, prints.
absl::StatusOr<int> FindAndPrint(const PeakFlags& flags, const std::vector<std::string>& nets,
                                 const Growth& growth);

}  // namespace neap::apps
