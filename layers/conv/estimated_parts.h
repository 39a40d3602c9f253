// Times for every engine that a plan may use for a step, measured or not: for its whole batch and
// for parts of it. Divisions are computed from them (layers/conv/micro_batching.h).
//
// Measured times are used as they are. Others are estimated from what is known best:
//
//   engine   batch  16   32   64   128
//   "fast"        1.1  2.0    .     .    measured sizes of the same engine: a launch and a slope
//   "medium"       .    .     .    9.0
//   "small"        .    .     .     .    the cost model, times what later engines of the library
//                                        lose (layers/conv/engine_losses.h), and by how much the
//                                        model is wrong about this step's measured engines
//
// An engine that was not measured is not taken to be faster than the fastest measured one among
// those that are expected to be as fast: it would be chosen because it is uncertain.
//
//   const EstimateOptions options = {.timings = &timings, .device = device.description(),
//                                    .flops = step.flops};
//   ASSIGN_OR_RETURN(std::vector<TimedEngine> known,
//                    EstimatedPartsOf(signature, engines, options, catalog));
//   FastestDivision(known, BatchOf(signature), BatchGranularity(signature), 64 * kMiB);
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/core/device/device.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/catalog/kernel_timings.h"
#include "neap/layers/conv/micro_batching.h"

namespace neap {

struct EstimateOptions {
  const KernelTimings* timings = nullptr;  // null: nothing was measured
  const DeviceDescription& device;
  double flops = 0;  // of the whole batch (core/step/layer_spec.h)
  // Sizes of parts. Those that were not measured are powers of two, and are only estimated if the
  // fastest engine for the whole batch needs more workspace than a slower one, or only engines that
  // are far slower than those of parts are listed or measured for it.
  DivisionPolicy divisions = DivisionPolicy::kAll;
  bool deterministic = true;  // leaves out measured engines whose bits may differ; others always
};

// `listed` has the catalog's engines for the whole batch. Engines that are not listed, failed or
// now need more workspace are left out. Errors: the catalog's.
absl::StatusOr<std::vector<TimedEngine>> EstimatedPartsOf(const StepSignature& signature,
                                                          absl::Span<const Engine> listed,
                                                          const EstimateOptions& options,
                                                          EngineCatalog& catalog);

}  // namespace neap
