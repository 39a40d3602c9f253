// Plans one step of one convolution inside a given workspace, as u-cuDNN does, for programs that
// have their own tensors and do not define their network in neap.
//
// A framework limits a convolution's workspace, and cannot use an engine that exceeds the limit by
// a byte. PlanConvolution() divides the step into micro-batches instead, and picks the fastest
// division that fits, which is u-cuDNN's WR (III-B). The caller provides the memory:
//
//   const Layer conv2 = Convolution{.out_channels = 192, .kernel = 5, .padding = 2};
//   ASSIGN_OR_RETURN(StepSignature step, SignatureOf(conv2, Phase::kForward, {x_spec}));
//   ASSIGN_OR_RETURN(Configuration plan,
//                    PlanConvolution(step, {.workspace_limit_bytes = 64 * kMiB,
//                                           .timings = &timings}, device->backend()));
//   ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel,
//                    MakeDividedKernel(device->backend(), step, plan.parts,
//                                      plan.workspace_bytes));
//   void* operands[] = {x, weight, bias, y};  // in the order of step.operands
//   RETURN_IF_ERROR(kernel->Run({.operands = operands, .workspace = workspace,
//                                .workspace_bytes = plan.workspace_bytes}));
//
// The times come from a Profiler (layers/profile/profiler.h). examples/micro_batched_conv.cc is a
// complete program.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "neap/core/base/units.h"
#include "neap/core/step/kernel.h"
#include "neap/layers/catalog/kernel_timings.h"
#include "neap/layers/conv/configuration.h"
#include "neap/layers/conv/micro_batching.h"

namespace neap {

struct ConvolutionOptions {
  int64_t workspace_limit_bytes = kUnlimited;
  DivisionPolicy divisions = DivisionPolicy::kAll;  // the sizes of parts considered
  const KernelTimings* timings = nullptr;           // null: nothing was measured
  bool deterministic = false;  // leaves out engines whose bits may differ between runs
};

// The fastest configuration within the limit according to the timings, restricted to engines that
// the library still lists. If the timings have none that fits, the configuration follows the
// library's order and has seconds = 0: the first engine that fits the whole batch, or, if
// `divisions` allows parts, the first that fits parts of the largest possible power of two, with a
// smaller last part. Engines whose measurement failed are used only if no other can run the step.
// Errors: INVALID_ARGUMENT for a step that is not divisible; RESOURCE_EXHAUSTED if nothing fits,
// with the least workspace that would; FAILED_PRECONDITION if deterministic engines are requested
// and the library has none; the catalog's.
absl::StatusOr<Configuration> PlanConvolution(const StepSignature& step,
                                              const ConvolutionOptions& options,
                                              EngineCatalog& catalog);

}  // namespace neap
