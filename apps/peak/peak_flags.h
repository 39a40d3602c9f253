// The flags of `neap peak-batch` and `neap peak-depth`.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "apps/cli/flags.h"
#include "apps/cli/net_flags.h"
#include "apps/cli/optimizer_flags.h"
#include "apps/cli/planning_flags.h"

namespace neap::apps {

struct PeakFlags {
  NetFlags net;
  PlanningFlags planning;
  OptimizerFlags optimizer;
  bool run = false;
  int64_t steps = 3;
  std::optional<int64_t> compared_batch = {};
  std::optional<double> keep_percent = {};
  bool json = false;

  PeakFlags() { planning.policy = "auto"; }
  // Adds the flags of planning, running and printing; each subcommand adds those of the network.
  void AddTo(FlagSet& flags);
  // Errors: BadUsage() for flags that contradict each other.
  absl::Status Check() const;
};

}  // namespace neap::apps
