// A convolution's step, run in parts of its mini-batch, one after another (u-cuDNN, section III):
// an engine that is fast but wants much workspace wants less of it for fewer images.
//
// Images are independent, so forward and backward_data of a part are plain convolutions of a slice
// of the operands. The gradients of the parameters are sums over the images: the first part writes
// them, and later ones add to them: by an engine that does so itself (cuDNN's beta), or by way of
// scratch space at the beginning of the workspace, which a kernel adds. Parts run one after
// another, so each has the whole workspace:
//
//   workspace  [what the engine of the first part, or of one that adds, wants ....)
//              [dweight, dbias of another part)[what its engine wants ......)
//
//   const EngineUse parts[] = {{"eng3_k2=0", 128}, {"eng3_k2=0", 128}};
//   ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel,
//                    MakeDividedKernel(backend, step, parts, workspace_bytes));
//   RETURN_IF_ERROR(kernel->Run({operands, workspace, workspace_bytes}));
//
// *Numerics*: y and dx are those of the undivided step, bit for bit, where the engine is the same
// and treats every image alike. Not so: FFTs, and engines that cut their sums by the size of the
// whole problem (oneDNN's GEMM, and its Winograd with many channels). A sum over parts is
// rounded in another order.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "neap/core/step/engine_use.h"
#include "neap/core/step/kernel.h"

namespace neap {

// Parts but the last have a multiple of so many images: kernels want their operands at multiples of
// kOperandAlignment, also those that begin in the middle of a tensor.
int64_t BatchGranularity(const StepSignature& signature);
inline constexpr int64_t kOperandAlignment = 16;

// Those that add, for a step with the part's batch; there may be none. Errors: the catalog's, but
// for UNIMPLEMENTED.
absl::StatusOr<std::vector<Engine>> AddingEngines(const StepSignature& part,
                                                  EngineCatalog& catalog);

// Workspace, besides its engine's own, of a part after the first that does not add. 0 but for
// backward_params.
int64_t DivisionScratchBytes(const StepSignature& signature);

// The kernel of an engine by name; an empty one means the only engine that there is.
// Errors: NOT_FOUND where the backend does not list it; INVALID_ARGUMENT where it wants more than
// `workspace_bytes`, or is not named and there are several; those of Backend::MakeKernel.
absl::StatusOr<std::unique_ptr<Kernel>> MakeKernelWithin(Backend& backend,
                                                         const StepSignature& signature,
                                                         std::string_view engine,
                                                         int64_t workspace_bytes);

// `parts`, in order, sum to the batch.
// Errors: INVALID_ARGUMENT for a step that is not divisible, parts that are not its batch, or one
// that adds where there is nothing to add to; those of MakeKernelWithin().
absl::StatusOr<std::unique_ptr<Kernel>> MakeDividedKernel(Backend& backend,
                                                          const StepSignature& signature,
                                                          absl::Span<const EngineUse> parts,
                                                          int64_t workspace_bytes);

}  // namespace neap
