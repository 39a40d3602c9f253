// How a planner chooses kernels: engines, and divisions of convolutions into micro-batches.
//
//   KernelOptions options = {.timings = std::make_shared<ProfiledTimings>(std::move(database)),
//                            .workspace_limit_bytes = 64 * kMiB};
#pragma once

#include <cstdint>
#include <memory>

#include "neap/core/base/units.h"
#include "neap/layers/catalog/kernel_timings.h"
#include "neap/layers/conv/micro_batching.h"

namespace neap {

// When memory is short: shrink workspaces or evict tensors? Applies only to evicting policies;
// under others, workspaces get what is left.
enum class WorkspaceRule : uint8_t {
  kBest,      // whichever of the two below is faster
  kLeftOver,  // workspaces get the bytes that tensors leave free (SuperNeurons 3.5)
  kGain,      // tensors are evicted where that saves more time than it costs (moDNN 5.2.3)
};

struct KernelOptions {
  std::shared_ptr<const KernelTimings> timings = {};  // null if nothing was measured
  // Which parts of a batch convolutions may be divided into.
  DivisionPolicy divisions = DivisionPolicy::kAll;
  // Use only engines that give the same bits every time.
  bool deterministic = true;
  // The most workspace of a convolution, as in other frameworks. If unlimited, a convolution may
  // take all bytes that are free in the arena at its step.
  int64_t workspace_limit_bytes = kUnlimited;
  WorkspaceRule workspace_rule = WorkspaceRule::kBest;
  friend bool operator==(const KernelOptions&, const KernelOptions&) = default;
};

}  // namespace neap
