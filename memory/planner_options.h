// The planner's options; its other inputs are the program and the device (memory/planner.h).
//
//   PlannerOptions options = {.budget_bytes = 12 * kGiB};
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "neap/core/base/units.h"
#include "neap/core/program/program.h"
#include "neap/memory/engines/kernel_options.h"
#include "neap/memory/placement/placement_method.h"
#include "neap/memory/transfer/tensor_cache.h"

namespace neap {

struct PlannerOptions {
  int64_t budget_bytes = kUnlimited;
  // Pinned host memory for offloaded tensors; planning fails if a plan needs more, and with 0 no
  // tensor moves there. Unlimited by default, so that a plan does not depend on the machine that
  // makes it; the command's default is three quarters of the host's memory, and 0 if that is the
  // device's own (apps/cli/planning_flags.h).
  int64_t host_budget_bytes = kUnlimited;
  int64_t peer_budget_bytes = 0;  // memory of the device's peer, used before the host's
  // Empty: auto if there is a budget, else liveness (DefaultPolicy() in
  // memory/policies/policies.h), as in the command.
  std::string policy = {};
  PlacementMethod placement = PlacementMethod::kOffline;
  // ProgramOptions::sub_batches of a session's programs. If absent, it is chosen
  // (memory/program_choice.h).
  std::optional<int64_t> sub_batches = {};
  // ProgramOptions::batch_norm_in_parts of a session's programs, so that networks with batch norms
  // can be run in sub-batches, too.
  bool batch_norm_in_parts = false;
  // ProgramOptions::offload_params of a session's programs. If absent, it is chosen
  // (memory/program_choice.h). A plan follows the program's.
  std::optional<bool> offload_params = {};
  // ProgramOptions of a rank's programs. If `bucket_bytes` is absent, it and
  // ProgramOptions::last_bucket_bytes are chosen (memory/program_choice.h).
  std::optional<int64_t> bucket_bytes = {};
  int buckets_in_flight = 0;
  EvictionRule eviction = EvictionRule::kLru;  // for policies that evict
  bool in_place = true;
  // Use one engine per convolution under every budget, so that every budget gives the same bits:
  // the first deterministic engine with a workspace of at most kStrictWorkspaceBytes, or
  // kStrictMostBytes where those are much slower (memory/engines/engine_table.h).
  bool strict = false;
  // Whether a refusal for lack of memory names the policy that can be planned instead, which takes
  // a second plan. A search that tries many sizes has no use for that.
  bool suggest_policy = true;
  // Ends the search once the next candidates make the plan hardly faster, which takes a tenth to a
  // half of the time: for a plan that is to be compared or measured, not run.
  bool quick = false;
  KernelOptions kernels = {};
  // Whether a tensor can be anywhere but in the budget.
  bool has_room_outside() const { return host_budget_bytes > 0 || peer_budget_bytes > 0; }
  friend bool operator==(const PlannerOptions&, const PlannerOptions&) = default;
};

}  // namespace neap
