// Which workspaces are worth driving tensors out for: moDNN's gain rule (Chen et al., "moDNN:
// Memory Optimal Deep Neural Network Training on Graphics Processing Units", TPDS 2019, 5.2.3).
//
//   gain(a, t) = T_base(t) - T_a(t) - T_off,a(t) - T_pre,a(u)                     (equation 10)
//
// For each run t, in order, the configuration a with the largest gain over the one with the least
// workspace (T_base) is taken. Where more bytes are wanted than are free at t, first the next
// fetches (u, 5.2.2) begin after t rather than before it, then tensors leave, in the order in which
// the cache evicts. T_pre and T_off are what of those copies is late: what does not fit between the
// run that made a tensor and t, on its way out, and between t and its next use, on its way back.
// What computation hides costs nothing (5.2.1, Fig. 3).
//
//   bytes  limit
//   |-------------+----------+---------
//   |  conv1      |workspace |  conv1       conv2 is worth a large workspace if it saves more than
//   |  conv1 -----+ of conv2 +- conv1       what is left of conv1's way out, and back
//   +--------------------------------> runs
//
// Only workspaces that something has to make room for are the rule's: a configuration that fits
// what is free needs none, and the walk finds it (memory/action_writer.h).
//
//   const std::vector<int64_t> workspaces =
//       WorkspacesByGain(program, engines, times, EvictionRule::kLru,
//                        {liveness, least, residency, level});
//   DecideResidency(program, liveness, workspaces, rules);   // now it is made
//
// *Complexity*: that of DecideResidency and, for each configuration of a run, O(256) for each
// tensor that would leave and each fetch that would wait.
#pragma once

#include <cstdint>
#include <vector>

#include "neap/core/program/liveness.h"
#include "neap/core/program/program.h"
#include "neap/memory/engines/engine_table.h"
#include "neap/memory/transfer/overlap.h"
#include "neap/memory/transfer/residency.h"
#include "neap/memory/transfer/tensor_cache.h"

namespace neap {

// What it starts from: who is in the arena at which run, within a limit, where workspaces are the
// least.
struct LeastWorkspaces {
  const Liveness& liveness;
  const std::vector<int64_t>& workspaces;  // by position
  const Residency& residency;              // decided with them, transfers overlapped
  int64_t limit_bytes = 0;                 // of its usage
};

// The bytes that are to be there for each run's workspace, by position: the least, or more where
// the gain is worth it. Of runs that were not measured nobody knows the gain.
std::vector<int64_t> WorkspacesByGain(const Program& program, const EngineTable& engines,
                                      const TransferTimes& times, EvictionRule eviction,
                                      const LeastWorkspaces& least);

}  // namespace neap
