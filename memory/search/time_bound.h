// The time bound: no plan of a program takes less time in so many bytes, whatever is kept, moved
// and rebuilt.
//
// While a step runs, its operands are in the arena. What else a later step reads is there too, or
// has left for the host before and comes back after, or is rebuilt after, by a rerun of the step
// that computed it:
//
//   in use, if nothing were dropped   |===operands===|=========== needed later ===========|
//   capacity                          |=======================|
//   excess                                                    |== moved ==|=== rebuilt ===|
//
//   time >= max(the runs before, moved bytes / link)
//         + max(this run and those after, with the reruns;  this run + moved bytes / link)
//
// For each step the best division of the excess is computed, where what takes the least time per
// byte is rebuilt first, and parts of tensors count as parts of their reruns. The largest of these
// times over the steps is the bound. It leaves out what else takes time or bytes: that rebuilding
// needs operands itself, that transfers wait, workspaces, and gaps between places.
//
//   const double seconds = LeastSeconds(program, prices, capacity_bytes);
#pragma once

#include <cstdint>
#include <vector>

#include "neap/core/program/program.h"

namespace neap {

struct TimePrices {
  std::vector<double> run_seconds;    // by StepId: the least that its first run takes
  std::vector<double> rerun_seconds;  // by StepId: the least that a rerun takes; may be infinite
  double link_bytes_per_second = 0;   // of the fastest link in one direction; 0: no time
};

// `capacity_bytes` are those of a budget without persistent tensors. *Complexity*: O(steps +
// tensors), and for each of the steps with the most bytes O(tensors log tensors).
double LeastSeconds(const Program& program, const TimePrices& prices, int64_t capacity_bytes);

}  // namespace neap
