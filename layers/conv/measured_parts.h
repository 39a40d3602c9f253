// The timed engines that a plan may use for a step: for its whole batch and for parts of it, with
// the cost of adding up the parts, and without engines that failed. Divisions are computed from
// them (layers/conv/micro_batching.h).
//
//   std::vector<TimedEngine> known =
//       MeasuredPartsOf(step, engines, DivisionPolicy::kAll, /*deterministic=*/true, timings);
//   FastestDivision(known, BatchOf(step), BatchGranularity(step), 64 * kMiB);
#pragma once

#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/core/base/tensor.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/catalog/kernel_timings.h"
#include "neap/layers/conv/configuration.h"
#include "neap/layers/conv/micro_batching.h"

namespace neap {

// The catalog's engines; none where it refuses the step with UNIMPLEMENTED. Errors: its others.
absl::StatusOr<std::vector<Engine>> EnginesOrNone(const StepSignature& signature,
                                                  EngineCatalog& catalog);
// The catalog's engines for the whole batch. None if it has engines for parts alone, as for tensors
// of more elements than the library can index, and the policy allows parts. Errors: the catalog's.
absl::StatusOr<std::vector<Engine>> WholeEngines(const StepSignature& signature,
                                                 DivisionPolicy divisions, EngineCatalog& catalog);

// The timed engines of a step, for its whole batch only if it is not divisible. `listed` has the
// catalog's engines for the whole batch; measured engines that are not listed, or that now need
// more workspace, are left out. Those that add in fp16 are left out for parts too, if the catalog
// lists none. `deterministic` also leaves out engines whose bits may differ between runs. If the
// time of the addition is unknown, a part that needs scratch memory for its gradients can only be
// first.
std::vector<TimedEngine> MeasuredPartsOf(const StepSignature& signature,
                                         absl::Span<const Engine> listed, DivisionPolicy divisions,
                                         bool deterministic, const KernelTimings& timings);

// Whether the whole batch was measured. If it was not, times of parts may still be known, from a
// profile of a smaller batch.
bool KnowsWhole(absl::Span<const TimedEngine> known, const StepSignature& signature);

// Calls `choose` on `known` until the catalog lists every engine that it picks within the
// configuration's workspace. Between calls, engines that are no longer listed are removed from
// `known`; an engine that is not listed for one size of part is removed for all sizes. Only the
// chosen parts are looked up, because `known` may have hundreds. Errors: the catalog's.
absl::StatusOr<std::vector<Configuration>> ChooseListed(
    const StepSignature& signature,
    absl::FunctionRef<std::vector<Configuration>(const std::vector<TimedEngine>&)> choose,
    EngineCatalog& catalog, std::vector<TimedEngine>& known);

// The engines of `listed`, in order, that are not known to fail on the whole batch (nothing is
// known if `timings` is null). `deterministic` keeps only those that always give the same bits.
std::vector<Engine> UsableEngines(const StepSignature& signature, std::vector<Engine> listed,
                                  bool deterministic, const KernelTimings* timings);

// The time of the kernel that adds a gradient to a sum (AdditionSignature); nullopt if it was not
// measured.
std::optional<double> AdditionSeconds(const TensorSpec& spec, const KernelTimings& timings);

}  // namespace neap
