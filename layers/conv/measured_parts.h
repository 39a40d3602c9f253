// What measured times offer for a step: the engines for its batch and for the parts that it may be
// run in, and what adding up the parts costs; and which engines it advises against. It is what
// divisions are made from (layers/conv/micro_batching.h).
//
//   std::vector<TimedEngine> known =
//       TimedPartsOf(step, engines, DivisionPolicy::kAll, /*deterministic=*/true, timings);
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

// Of a step that is not divisible, for its whole batch alone. `listed`: the engines that the
// catalog has for the whole batch; measured ones that are not among them, or want more workspace by
// now, are left out. With `deterministic` so are those that may give other bits every time. Where
// the time of adding up is not known, parts by scratch can only be first.
std::vector<TimedEngine> TimedPartsOf(const StepSignature& signature,
                                      absl::Span<const Engine> listed, DivisionPolicy divisions,
                                      bool deterministic, const KernelTimings& timings);

// Whether the whole batch was measured. Where it was not, parts of it may be known by chance: a
// smaller batch was.
bool KnowsWhole(absl::Span<const TimedEngine> known, const StepSignature& signature);

// What `choose` makes of the known parts, all of it in engines that the library has. Where it names
// one that the library has no more, or only in more workspace, that goes out of `known`, and
// `choose` is asked again: parts are looked up here, when they are few, and not where there are
// hundreds. An engine that lacks one size of part is trusted with no other. Errors: the catalog's.
absl::StatusOr<std::vector<Configuration>> ChooseListed(
    const StepSignature& signature,
    absl::FunctionRef<std::vector<Configuration>(const std::vector<TimedEngine>&)> choose,
    EngineCatalog& catalog, std::vector<TimedEngine>& known);

// Those of `listed`, in order, that are not known to fail on the whole batch (`timings` null:
// nothing is known), with `deterministic` only those that give the same bits every time.
std::vector<Engine> UsableEngines(const StepSignature& signature, std::vector<Engine> listed,
                                  bool deterministic, const KernelTimings* timings);

// Of the kernel that adds a gradient to a sum (AdditionSignature); none where it was not measured.
std::optional<double> AdditionSeconds(const TensorSpec& spec, const KernelTimings& timings);

}  // namespace neap
