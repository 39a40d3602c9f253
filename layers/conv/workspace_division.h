// Divides one workspace among all convolutions of a network (u-cuDNN III-C, "WD"): each kernel gets
// its own segment, and bytes go to the kernels that gain the most time from them.
//
// With a limit per kernel ("WR"), small kernels leave bytes unused that a large one lacks; under
// one total the kernels compete. Each kernel has a front of desirable configurations. One is chosen
// per kernel such that the workspaces sum to at most the total and the sum of the times is minimal:
//
//   seconds   kernel 1      kernel 2             total 40: kernel 2 gains more from bytes
//     |  o                  o                      1: (10 bytes, 5 s)
//     |     o                                      2: (30 bytes, 1 s)
//     |                           o
//     +--10-20------------10-----30--> bytes
//
// This is a 0-1 integer linear program. Its linear relaxation is solved first: it gives a lower
// bound, a division close to it, and a proof that no better division contains most of the
// configurations. A branch and bound (knapsack.h) solves the small program that remains.
//
//   std::vector<std::vector<Configuration>> fronts;  // one of DesirableConfigurations() per kernel
//   ASSIGN_OR_RETURN(WorkspaceDivision division, DivideWorkspace(fronts, 120 * kMiB));
//   const Configuration& conv2 = fronts[1][division.choice[1]];
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/layers/conv/configuration.h"

namespace neap {

struct WorkspaceDivisionGoal {
  int64_t max_states = 4096;  // bounds the search's work (knapsack.h); 0: only the relaxation
  double gap = 1e-5;          // relative distance to the bound at which the search stops
};

struct WorkspaceDivision {
  std::vector<size_t> choice;   // by kernel: the position in its front
  int64_t workspace_bytes = 0;  // sum over all kernels
  double seconds = 0;           // sum over all kernels
  double seconds_bound = 0;     // proven lower bound on the time of any division
  bool optimal = false;         // proven, up to double precision

  // The largest possible relative improvement of another division.
  double gap() const { return seconds > 0 ? (seconds - seconds_bound) / seconds : 0; }
};

// Each front is in order of rising workspace and strictly falling time. The result is
// deterministic. Errors: INVALID_ARGUMENT for a front that is empty or out of order, with its
// position; RESOURCE_EXHAUSTED, with the smallest sufficient total, if the kernels do not fit.
absl::StatusOr<WorkspaceDivision> DivideWorkspace(
    absl::Span<const std::vector<Configuration>> fronts, int64_t total_bytes,
    const WorkspaceDivisionGoal& goal = {});

}  // namespace neap
