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

// Who gives way where the arena is short and times were measured. Of policies by which tensors may
// leave at will; with the others workspaces get what is left.
enum class WorkspaceRule : uint8_t {
  kBest,      // whichever of the two is faster
  kLeftOver,  // workspaces: they take the bytes that tensors leave (SuperNeurons 3.5)
  kGain,      // tensors, where that saves more than their transfers cost (moDNN 5.2.3)
};

struct KernelOptions {
  std::shared_ptr<const KernelTimings> timings = {};  // null: nothing was measured
  // Which parts of a batch convolutions may be run in, of those that were measured.
  DivisionPolicy divisions = DivisionPolicy::kAll;
  // Only engines that give the same bits every time.
  bool deterministic = true;
  // Of each convolution, as frameworks have it. Unlimited: what is left in the arena at the step.
  int64_t workspace_limit_bytes = kUnlimited;
  WorkspaceRule workspace_rule = WorkspaceRule::kBest;
  friend bool operator==(const KernelOptions&, const KernelOptions&) = default;
};

}  // namespace neap
