// The work of `neap peak-batch` and `neap peak-depth` after their flags are parsed: they open the
// device, search for each network and policy, and print.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "apps/peak/growth.h"
#include "apps/peak/peak_flags.h"

namespace neap::apps {

struct GrowingNet {
  std::string net;
  Growth growth;
};

// There is at least one network, and all grow in the same way. Policies among several that have no
// size that fits are reported as such. Errors: those of the first search if none has one;
// BadUsage() for flags that contradict each other.
absl::StatusOr<int> FindAndPrint(const PeakFlags& flags, const std::vector<GrowingNet>& nets);

}  // namespace neap::apps
