// The choice of the program to plan (ProgramChoice, core/plan/planner.h): policy `auto` runs the
// batch in sub-batches, or keeps parameters on the host, if that is faster than moving and
// rebuilding more of what does not fit.
//
//   sub-batches   1         2         3         4          the fastest of the plans that fit
//   activations   ========  ====      ===       ==
//   transfers     ####      ##        #                    none: more parts only take longer
//
// More parts need fewer bytes, but weights are read more often, gradients added up, and kernels for
// fewer images are less efficient (moDNN, section 5.1.2, has a rule of thumb instead of plans). Any
// number may be the best; few are planned (memory/parts_search.h), and all that there are only if
// none of these fits (memory/smallest_program.h). Bits depend on the number of parts, because
// gradients are summed in another order. It is therefore 1 in strict mode, and on the CPU. A
// network with batch norms is split only with PlannerOptions::batch_norm_in_parts.
//
// Parameters that are on the host except while a step uses them cost copies in every iteration, and
// leave their bytes to activations. With a few hundred megabytes of them, and computation to hide
// their copies, that is worth it in budgets of one or two gigabytes. Bits do not depend on it.
//
// Ranks of data parallelism sum gradients in buckets. Their size is chosen by the time of the
// program without a budget, because it matters little to memory; all ranks take that of rank 0
// (core/run/session/lower_session.h).
//
//   const auto lower = [&](const ProgramChoice& choice) {
//     return Lower(graph,
//                  {.offload_params = choice.offload_params, .sub_batches = choice.sub_batches},
//                  device->description());
//   };
//   ASSIGN_OR_RETURN(const ChosenProgram chosen,
//                    ChooseProgram(lower, {.budget_bytes = 4 * kGiB}, device->description(),
//                                  device->backend()));
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "neap/core/device/device.h"
#include "neap/core/plan/planner.h"
#include "neap/core/step/kernel.h"
#include "neap/memory/planner_options.h"

namespace neap {

// Programs with more steps take long to plan. They are not split, and their parameters are on the
// host only if the budget requires it. Every sub-batch has steps of its own; so many parts that
// there are more steps are chosen only if fewer do not fit.
inline constexpr size_t kMaxStepsOfChoice = 12000;

// Whether more than one sub-batch may be chosen for these options: they have a budget, do not ask
// for a number of sub-batches or for strict bits, and their policy may split the batch
// (Policy::may_split_batch).
// Errors: those of FindPolicy().
absl::StatusOr<bool> MayChooseSubBatches(const PlannerOptions& options,
                                         const DeviceDescription& device);

// The bytes of the parameters and the optimizer state that may be kept on the host. 0 in the
// paper's accounting, which does not count them.
int64_t OffloadableParamBytes(const Program& program);

// Whether parameters may be kept on the host for these options: they have a budget and do not ask
// for the one or the other, the device has memory of its own, and their policy may do so
// (Policy::may_offload_params). Errors: those of FindPolicy().
absl::StatusOr<bool> MayChooseOffloading(const PlannerOptions& options,
                                         const DeviceDescription& device);

// PlannerOptions::sub_batches and offload_params where they are set. Otherwise one sub-batch, or
// the number with the fastest plan that was found if MayChooseSubBatches(); and parameters stay on
// the device unless MayChooseOffloading(), the host budget has room for them, and the plan is
// faster so by a thousandth. A network that couples the images of a batch, which `lower` refuses
// with INVALID_ARGUMENT, is not split. Where the time of sums is known, the sizes of buckets are
// the fastest of kBucketChoices unless PlannerOptions::bucket_bytes is set. Without a plan that
// fits, the choice is that of the program with the smallest feasible budget of all that the options
// allow, so that MakePlan() refuses it with that budget.
// Errors: those of `lower` and MakePlan(), other than too small a budget; RESOURCE_EXHAUSTED for
// that if the network would fit in parts with PlannerOptions::batch_norm_in_parts, which the
// message names.
absl::StatusOr<ChosenProgram> ChooseProgram(LowerWith lower, const PlannerOptions& options,
                                            const DeviceDescription& device,
                                            EngineCatalog& catalog);

}  // namespace neap
