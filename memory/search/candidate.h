// A candidate: one way to run an iteration, of which the search picks the fastest. Its parts are
// found one after another: the order of runs, the residency and the workspaces decide how many
// bytes are taken when; placement finds the addresses; and the actions are written.
//
//   Candidate candidate = PlaceCandidate(
//       program, {.runs = runs, .residency = residency, .workspaces = least},
//       PlacementMethod::kOffline, {});
//   candidate.arena_bytes;   // the smallest budget with which it can be written
//   ASSIGN_OR_RETURN(candidate, WriteCandidate(program, candidate, engines,
//                                              PlacementMethod::kOffline, budget));
//   candidate.written.peak_bytes;   // <= budget
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "neap/core/plan/plan.h"
#include "neap/core/program/program.h"
#include "neap/memory/engines/engine_table.h"
#include "neap/memory/placement/placement.h"
#include "neap/memory/placement/placement_method.h"
#include "neap/memory/search/action_writer.h"
#include "neap/memory/transfer/residency.h"

namespace neap {

struct Candidate {
  ComputeSequence runs;
  Residency residency;
  std::vector<int64_t> workspaces;  // by position: the bytes that the run is sure to have
  // Found by PlaceCandidate. All bytes are with persistent tensors.
  absl::flat_hash_map<AllocationId, Region> places;  // above those; offline placement only
  int64_t lower_bound_bytes = 0;                     // of the arena, in any placement
  int64_t arena_bytes = 0;                           // with these workspaces
  StepId busiest_step;                               // where the sum of live bytes is largest
  int64_t busiest_bytes = 0;
  // Found by WriteCandidate.
  WrittenActions written;
};

// Whether a tensor is moved to the host or the peer.
bool Moves(const Candidate& candidate);
// Whether a tensor is moved or fetched; parameters of inference are only fetched.
bool Copies(const Candidate& candidate);
// The bytes that are copied to the host in an iteration, and those of parameters that are kept
// there. What lies on the host at any time is at most that.
int64_t CopiedBytes(const Program& program, const Candidate& candidate);

// `candidate` has its runs, residency and workspaces. `goal` is for offline placement of what is
// not persistent.
Candidate PlaceCandidate(const Program& program, Candidate candidate, PlacementMethod placement,
                         const PlacementGoal& goal);

// The same for offline placement, if a schedule (memory/policies/schedule.h) has found the places:
// of stays, which those in place share, and of workspaces by position. All are above persistent
// tensors.
Candidate PlaceCandidateAt(const Program& program, Candidate candidate,
                           const std::vector<Region>& places,
                           const std::vector<Region>& workspace_places);

// Writes a placed candidate's actions in an arena of `budget_bytes`. Engines may take workspaces
// larger than the candidate's where bytes are free. Errors: those of the allocator, if the budget
// is less than `arena_bytes`.
absl::StatusOr<Candidate> WriteCandidate(const Program& program, Candidate candidate,
                                         const EngineTable& engines, PlacementMethod placement,
                                         int64_t budget_bytes);

// The actions of runs in an arena without end, in which no bytes are used twice and every run has
// its most preferred engine. With the same times of runs no placement takes less time, because
// nothing waits for bytes here.
WrittenActions WriteApart(const Program& program, const ComputeSequence& runs,
                          const Residency& residency, const EngineTable& engines);

}  // namespace neap
