// The choice of the number of sub-batches (core/program/sub_batches.h): policy `auto` runs the
// batch in parts if that is faster than moving and rebuilding what does not fit.
//
//   sub-batches   1         2         4          the fastest of the plans that fit
//   activations   ========  ====      ==
//   transfers     ####      ##                   none: more parts would only take longer
//
// More parts need fewer bytes, but weights are read more often, gradients added up, and kernels for
// fewer images are less efficient (moDNN, section 5.1.2, has a rule of thumb instead of plans).
// Bits depend on the number of parts, because gradients are summed in another order. It is
// therefore 1 in strict mode, and on the CPU.
//
//   const auto lower = [&](int64_t count) {
//     return Lower(graph, {.sub_batches = count}, device->description());
//   };
//   ASSIGN_OR_RETURN(int64_t count, ChooseSubBatches(lower, {.budget_bytes = 4 * kGiB},
//                                                    device->description(), device->backend()));
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/planner.h"
#include "neap/core/step/kernel.h"
#include "neap/memory/planner_options.h"

namespace neap {

// Every sub-batch has steps of its own. Programs with more steps are not tried, because they take
// long to plan.
inline constexpr size_t kMostStepsInSubBatches = 12000;

// Whether more than one sub-batch may be chosen for these options: they have a budget, do not ask
// for a number of sub-batches or for strict bits, and their policy may split the batch
// (Policy::may_split_batch).
// Errors: those of FindPolicy().
absl::StatusOr<bool> MayChooseSubBatches(const PlannerOptions& options,
                                         const DeviceDescription& device);

// PlannerOptions::sub_batches if it is set. Otherwise 1, or a power of two if
// MayChooseSubBatches(). A network that couples the images of a batch, which `lower` refuses with
// INVALID_ARGUMENT, is not split. Without a plan that fits, the number is that of the plan that
// needs the fewest bytes.
// Errors: those of `lower` and MakePlan(), other than too small a budget.
absl::StatusOr<int64_t> ChooseSubBatches(LowerWith lower, const PlannerOptions& options,
                                         const DeviceDescription& device, EngineCatalog& catalog);

}  // namespace neap
