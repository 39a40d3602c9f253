// The gain rule: which workspaces are worth evicting tensors for (Chen et al., "moDNN: Memory
// Optimal Deep Neural Network Training on Graphics Processing Units", TPDS 2019, 5.2.3).
//
//   gain(a, t) = T_base(t) - T_a(t) - T_off,a(t) - T_pre,a(u)                     (equation 10)
//
// For each run t, in order, the rule takes the configuration a with the largest gain over the one
// with the least workspace (T_base). If its workspace exceeds the bytes that are free at t, first
// the next fetches (u, 5.2.2) are delayed until after t, then tensors are evicted in the order of
// the tensor cache. T_off and T_pre are the seconds by which these copies are late: the part that
// does not overlap with the runs between the one that made the tensor and t, on its way to the
// host, and between t and its next use, on its way back. For the rule, time that computation hides
// costs nothing (5.2.1, Fig. 3).
//
//   bytes  limit
//   |-------------+----------+---------
//   |  conv1      |workspace |  conv1       conv2 gets a large workspace if that saves more time
//   |  conv1 -----+ of conv2 +- conv1       than conv1's copies to the host and back are late
//   +--------------------------------> runs
//
// The rule only decides on workspaces that do not fit the free bytes. The action writer finds the
// others by itself (memory/search/action_writer.h).
//
//   const std::vector<int64_t> workspaces =
//       WorkspacesByGain(program, engines, times, EvictionRule::kLru,
//                        {liveness, least, residency, level});
//   DecideResidency(program, liveness, workspaces, rules);   // evicts what makes room for them
//
// *Complexity*: that of DecideResidency and, for each configuration of a run, O(256) for each
// tensor that would be evicted and each fetch that would be delayed.
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

// The plan to improve: a residency within a limit that was decided with the smallest workspaces.
struct LeastWorkspaces {
  const Liveness& liveness;
  const std::vector<int64_t>& workspaces;  // by position
  const Residency& residency;              // with overlapped transfers
  int64_t limit_bytes = 0;                 // of the residency's usage
};

// The bytes to reserve for each run's workspace, by position: the least, or more where the rule
// finds a gain.
std::vector<int64_t> WorkspacesByGain(const Program& program, const EngineTable& engines,
                                      const TransferTimes& times, EvictionRule eviction,
                                      const LeastWorkspaces& least);

}  // namespace neap
