// moDNN's scheduling (Chen et al., "moDNN: Memory Optimal Deep Neural Network Training on Graphics
// Processing Units", TPDS 2019, section 5.2, Algorithm 1), for Policy::schedule.
//
// One walk over the runs simulates the iteration in an arena of a given size, with the times of
// runs and copies. For each run t:
//
//   1. its operands get memory: free bytes (exact fit, then first fit), else an offloading scheme
//      (5.2.1), else everything is offloaded and t's operands come back (defragmentation)
//   2. operands that are away are loaded
//   3. of its configurations it gets the one with the largest gain (equation 10); an offloading
//      scheme may make room for the workspace
//   4. what later runs read is prefetched, if it would be late after t (equation 9), unless their
//      operands are not expected to fit beside what must stay
//   5. it runs, and what is not used again is freed
//
//   bytes
//   |  conv2 [====)out            in[===      the scheme for t: neighbours conv2 and relu2, whose
//   |  relu2 [========)out   in[===           copies to the host are late the least
//   |  conv1 [=======================...      not used since it came: stays
//   +-----------------t------------------> runs
//
// A tensor may leave unless it is an operand of t, or was not used since it was made or fetched.
// Where this differs from the paper:
//   * Copies to the host and back have a stream each, as in neap's plans; the paper has one for
//     both.
//   * To prefetch for run s, nothing leaves that is read before s; the paper does not say so, but
//     it would be fetched twice.
//   * Gradients of parameters and labels, which the paper has with the weights, stay in a place
//     that is found beforehand, so that they cannot fragment the rest.
//   * Where there is no free memory at all, memory/search/plan_search.h has the smallest plan of
//     the tensor cache.
// The sub-batch is selected beforehand (memory/policies/modnn_sub_batch.h).
//
//   const std::optional<Schedule> schedule =
//       ModnnSchedule({program, liveness, configurations, 8e9, 12 * kGiB});
//
// *Complexity*: O(runs x (blocks in memory + prefetches)) where memory is short.
#pragma once

#include <optional>

#include "neap/memory/policies/schedule.h"

namespace neap {

// Absent if the operands of a run do not fit.
std::optional<Schedule> ModnnSchedule(const ScheduleRequest& request);

}  // namespace neap
