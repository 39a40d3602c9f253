// Plans one step of one convolution inside a given workspace: u-cuDNN's use, for programs that have
// their own tensors and no network of neap's.
//
// A framework fixes a limit for a convolution's workspace, and the engine that misses it by a byte
// is lost. Here the step is divided into micro-batches such that the fastest division fits, which
// is u-cuDNN's WR (III-B). Signature, plan and kernel are a call each; memory is the caller's:
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
// Times come from a Profiler (layers/profile/profiler.h). examples/micro_batched_conv.cc is a whole
// program.
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
  DivisionPolicy divisions = DivisionPolicy::kAll;  // of the parts that were measured
  const KernelTimings* timings = nullptr;           // null: nothing was measured
  bool deterministic = false;  // leaves out engines that may give other bits every time
};

// The fastest configuration within the limit, by the timings, of engines that the library still
// has. Where the timings know of none that fits, by the library's order, in seconds 0: the first
// engine that fits for the whole batch, else, where `divisions` allows parts, for parts of as large
// a power of two as any fits, and a last one of what is left. Engines that failed when they were
// to be measured are left out, unless nothing can be run without them.
// Errors: INVALID_ARGUMENT for a step that is not divisible; RESOURCE_EXHAUSTED where nothing fits,
// naming the least workspace that would do; FAILED_PRECONDITION where deterministic engines are
// asked for and there are none; the catalog's.
absl::StatusOr<Configuration> PlanConvolution(const StepSignature& step,
                                              const ConvolutionOptions& options,
                                              EngineCatalog& catalog);

}  // namespace neap
