// What the planner is asked for, besides the program and the device (memory/planner.h).
//
//   PlannerOptions options = {.budget_bytes = 12 * kGiB, .policy = "superneurons"};
#pragma once

#include <cstdint>
#include <string>

#include "neap/core/base/units.h"
#include "neap/memory/engines/kernel_options.h"
#include "neap/memory/transfer/tensor_cache.h"

namespace neap {

struct PlannerOptions {
  int64_t budget_bytes = kUnlimited;
  // Pinned host memory for what leaves the arena. A plan that wants more is refused. Unlimited
  // unless given, so that a plan does not depend on the machine that it is made on; the command
  // gives three quarters of the host's memory (apps/cli/planning_flags.h).
  int64_t host_budget_bytes = kUnlimited;
  int64_t peer_budget_bytes = 0;  // memory of the device's peer, taken first
  // The command's default is superneurons where a budget is given.
  std::string policy = "liveness";
  std::string placement = "offline";  // first-fit, exact-fit-first-fit, offline
  // Parameters and optimizer state are on the host between iterations, in the arena around their
  // uses (moDNN 5.1.1). Exact accounting only.
  bool offload_params = false;
  EvictionRule eviction = EvictionRule::kLru;  // of policies that evict
  bool in_place = true;
  // One engine per convolution whatever the budget, so that every budget gives the same bits: the
  // first deterministic one whose workspace is at most kStrictWorkspaceBytes
  // (memory/engines/engine_table.h).
  bool strict = false;
  KernelOptions kernels = {};
  friend bool operator==(const PlannerOptions&, const PlannerOptions&) = default;
};

}  // namespace neap
