// The search of `neap peak-batch` and `neap peak-depth` over the choices of the program.
//
// Where the planner may choose sub-batches (memory/program_choice.h), 2, 4, 8, ... of them are
// tried at sizes that are larger by an eighth, twice that, and so on, if a whole batch is found at
// all. The search is repeated with as many as have reached the largest of these, and then once more
// with parameters on the host, where the planner may choose that and it is a batch that grows; it
// starts at the size found. Without --keep, only the largest size of all is planned in full, unless
// the host budget may be too small.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "apps/cli/device_flag.h"
#include "apps/peak/growth.h"
#include "apps/peak/peak_finder.h"
#include "apps/peak/peak_flags.h"

namespace neap::apps {

// Errors: RESOURCE_EXHAUSTED if not even the smallest size fits, or no size keeps its speed;
// BadUsage() for an unknown network.
absl::StatusOr<PeakResult> FindPeak(const PeakFlags& flags, const PlanTarget& target,
                                    const Growth& growth, const std::string& net);

}  // namespace neap::apps
