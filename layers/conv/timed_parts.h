// What measured times offer for a step: the engines for its batch and for the parts that it may be
// run in, and what adding up the parts costs. It is what divisions are made from
// (layers/conv/micro_batching.h).
//
//   std::vector<TimedEngine> known = TimedPartsOf(step, engines, DivisionPolicy::kAll, timings);
//   FastestDivision(known, BatchOf(step), 64 * kMiB);
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/core/tensor.h"
#include "neap/layers/conv/configuration.h"
#include "neap/layers/conv/micro_batching.h"
#include "neap/layers/kernel.h"
#include "neap/layers/kernel_timings.h"

namespace neap {

// Of a step that is not divisible, for its whole batch alone. `listed`: the engines that the
// catalog has for the whole batch; measured ones that are not among them, or want more workspace by
// now, are left out.
std::vector<TimedEngine> TimedPartsOf(const StepSignature& signature,
                                      absl::Span<const Engine> listed, DivisionPolicy divisions,
                                      const KernelTimings& timings);

// A part of the configuration that the library has no more, or only in more workspace. Parts are
// asked for here, when they are few, and not where there are hundreds. Errors: the catalog's.
absl::StatusOr<std::optional<EngineUse>> FindUnlisted(const StepSignature& signature,
                                                      const Configuration& configuration,
                                                      EngineCatalog& catalog);

// Of the kernel that adds a gradient to a sum (AdditionSignature); 0 where it was not measured.
double AdditionSeconds(const TensorSpec& spec, const KernelTimings& timings);

}  // namespace neap
