// Divides one workspace among all convolutions of a network (u-cuDNN III-C, "WD"): each kernel gets
// a segment of its own, and bytes go where they buy most time.
//
// With a limit per kernel ("WR") small kernels leave bytes unused that a large one lacks; under one
// total the kernels compete. Every kernel brings its desirable configurations, and one is chosen
// for each, so that the workspaces add up to no more than the total and the times to the least:
//
//   seconds   kernel 1      kernel 2             total 40: kernel 2 gains more from bytes
//     |  o                  o                      1: (10 bytes, 5 s)
//     |     o                                      2: (30 bytes, 1 s)
//     |                           o
//     +--10-20------------10-----30--> bytes
//
// That is a 0-1 integer linear program, solved with GLPK as in the paper. Its linear relaxation is
// solved first, by hand: it gives a lower bound, a division close to it, and the proof that most
// configurations are in no better one. What remains is small.
//
//   std::vector<std::vector<Configuration>> fronts;  // of every kernel: DesirableConfigurations()
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
  double time_limit_seconds = 0.5;  // of the search; what it has found by then is the result
  double gap = 1e-5;                // it also stops this close to the bound, as a part of the time
};

struct WorkspaceDivision {
  std::vector<size_t> choice;   // by kernel: the position in its front
  int64_t workspace_bytes = 0;  // of all kernels
  double seconds = 0;           // of all kernels
  double seconds_bound = 0;     // proven: no division is faster
  bool optimal = false;         // proven, as far as double precision goes

  // How much faster a division could be at most, as a part of the time.
  double gap() const { return seconds > 0 ? (seconds - seconds_bound) / seconds : 0; }
};

// Each front by rising workspace and strictly falling time. The same answer for the same fronts,
// unless the time limit is met. Errors: INVALID_ARGUMENT for a front that is empty or out of order,
// with its position; RESOURCE_EXHAUSTED naming the smallest total where the kernels do not fit.
absl::StatusOr<WorkspaceDivision> DivideWorkspace(
    absl::Span<const std::vector<Configuration>> fronts, int64_t total_bytes,
    const WorkspaceDivisionGoal& goal = {});

}  // namespace neap
