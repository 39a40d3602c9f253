// A plan in the making: an order of runs, who is where when, and the addresses that go with it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "neap/core/plan/plan.h"
#include "neap/core/program/program.h"
#include "neap/memory/action_writer.h"
#include "neap/memory/engines/engine_table.h"
#include "neap/memory/placement/placement.h"
#include "neap/memory/transfer/residency.h"

namespace neap {

struct Draft {
  ComputeSequence runs;
  Residency residency;
  std::vector<int64_t> workspaces;                   // by position: bytes that are there for sure
  absl::flat_hash_map<AllocationId, Region> places;  // offline placement only
  int64_t lower_bound_bytes = 0;  // no placement needs less; with persistent tensors, as the others
  int64_t arena_bytes = 0;        // with those workspaces
  StepId busiest_step;            // where the sum of live bytes is largest
  int64_t busiest_bytes = 0;
};

// Finds the places and sizes of a draft of which runs, residency and workspaces are there.
// `placement`: first-fit, exact-fit-first-fit or offline; `goal` is that one's, for what is not
// persistent.
absl::StatusOr<Draft> PlaceDraft(const Program& program, Draft draft, const EngineTable& engines,
                                 std::string_view placement, const PlacementGoal& goal);

// The draft's actions in an arena of `budget_bytes`, with the engines that the bytes left allow.
absl::StatusOr<WalkResult> WalkDraft(const Program& program, const Draft& draft,
                                     const EngineTable& engines, std::string_view placement,
                                     int64_t budget_bytes);

}  // namespace neap
