// How a planner chooses kernels: engines, and divisions of convolutions into micro-batches.
//
//   KernelOptions options = {.timings = std::make_shared<ProfiledTimings>(std::move(database)),
//                            .workspace_limit_bytes = 64 * kMiB};
#pragma once

#include <cstdint>
#include <memory>

#include "neap/core/units.h"
#include "neap/layers/conv/micro_batching.h"
#include "neap/layers/kernel_timings.h"

namespace neap {

struct KernelOptions {
  std::shared_ptr<const KernelTimings> timings = {};  // null: nothing was measured
  // Which parts of a batch convolutions may be run in, of those that were measured.
  DivisionPolicy divisions = DivisionPolicy::kAll;
  // Only engines that give the same bits every time.
  bool deterministic = true;
  // Of each convolution, as frameworks have it. Unlimited: what is left in the arena at the step.
  int64_t workspace_limit_bytes = kUnlimited;
  friend bool operator==(const KernelOptions&, const KernelOptions&) = default;
};

}  // namespace neap
