// Makes the candidates of an order of runs under a memory limit, and places them.
//
// Residency, workspaces and addresses depend on each other: larger workspaces leave fewer bytes to
// tensors, and whether a candidate fits is known only once it is placed. So under a limit there is
// one candidate for each choice of workspaces, and placement, which usually takes longest, is left
// out where a bound on the time says that the candidate is too slow (memory/search/time_floor.h).
//
//   limit -> residency and workspaces -> too slow? -> placement -> actions (Write)
//
//   const CandidateMaker candidates(program, options, residencies, floor);
//   const Candidate smallest = candidates.Under({0, 0}, order);    // everything evicted
//   candidates.FasterAt(8 * kGiB, best_us, order, scratch);        // of one level of the ladder
//
// *Threads*: several may use one, each with a scratch plan of its own.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/core/plan/plan.h"
#include "neap/core/program/program.h"
#include "neap/memory/engines/engine_table.h"
#include "neap/memory/placement/placement.h"
#include "neap/memory/planner_options.h"
#include "neap/memory/search/candidate.h"
#include "neap/memory/search/residencies.h"
#include "neap/memory/search/search_order.h"
#include "neap/memory/search/time_floor.h"
#include "neap/memory/transfer/residency.h"
#include "neap/memory/transfer/usage.h"

namespace neap {

class CandidateMaker {
 public:
  // *Ownership*: borrows all.
  CandidateMaker(const Program& program, const PlannerOptions& options,
                 const Residencies& residencies, const TimeFloor& floor)
      : program_(program), options_(options), residencies_(residencies), floor_(floor) {}

  // The placed candidate with the smallest workspaces, and transfers that do not overlap.
  Candidate Under(const Usage& limit, const SearchOrder& order,
                  const PlacementGoal& goal = {}) const;
  // The same one unless it cannot take less than `best_us`. `scratch` is that of
  // TimeFloor::IsTooSlow().
  std::optional<Candidate> FasterUnder(const Usage& limit, double best_us, const SearchOrder& order,
                                       Plan& scratch) const;
  // The candidates of a level of the ladder, placed: one for each choice of workspaces, without
  // those that cannot take less than `best_us`.
  std::vector<Candidate> FasterAt(int64_t limit_bytes, double best_us, const SearchOrder& order,
                                  Plan& scratch) const;

  // A placed candidate with its actions. `engines` are those of its order. Errors: those of
  // WriteCandidate().
  absl::StatusOr<Candidate> Write(Candidate candidate, const EngineTable& engines,
                                  int64_t budget_bytes) const;

 private:
  // The one by the policy's schedule in so many bytes, if it has room and is not too slow.
  std::vector<Candidate> ScheduledAt(int64_t limit_bytes, double best_us, const SearchOrder& order,
                                     Plan& scratch) const;
  // The bytes reserved for each run's workspace, by position: one choice for each workspace rule.
  // `least` is the residency with the smallest workspaces.
  std::vector<std::vector<int64_t>> WorkspacesAt(int64_t limit_bytes, const SearchOrder& order,
                                                 const Residency& least) const;
  Candidate Place(const SearchOrder& order, std::vector<int64_t> workspaces, Residency residency,
                  const PlacementGoal& goal) const;

  const Program& program_;
  const PlannerOptions& options_;
  const Residencies& residencies_;
  const TimeFloor& floor_;
};

}  // namespace neap
