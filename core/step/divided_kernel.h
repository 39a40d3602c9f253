// A convolution's step, run in parts of its mini-batch, one after another (u-cuDNN, section III): a
// fast engine that needs much workspace needs less of it for fewer images.
//
// Images are independent, so forward and backward_data of a part are plain convolutions of a slice
// of the operands. The gradients of the parameters are sums over the images: the first part writes
// them, and later parts accumulate into them, either by an engine that adds by itself (cuDNN's
// beta) or through scratch space at the beginning of the workspace, which a kernel then adds. Parts
// run one after another, so each can use the whole workspace:
//
//   workspace  [workspace of the engine, for the first part or one that adds by itself )
//              [dweight, dbias of another part)[workspace of its engine ...............)
//
//   const EngineUse parts[] = {{"eng3_k2=0", 128}, {"eng3_k2=0", 128}};
//   ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel,
//                    MakeDividedKernel(backend, step, parts, workspace_bytes));
//   RETURN_IF_ERROR(kernel->Run({operands, workspace, workspace_bytes}));
//
// *Numerics*: y and dx are bit for bit those of the undivided step if the engine is the same and
// treats every image alike. FFTs do not, nor do engines that split their sums by the size of the
// whole problem (oneDNN's GEMM, and its Winograd with many channels). A sum over parts is rounded
// in another order.
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

// All parts but the last must have a multiple of this number of images: kernels need operands at
// multiples of kOperandAlignment, including those that begin in the middle of a tensor.
int64_t BatchGranularity(const StepSignature& signature);
inline constexpr int64_t kOperandAlignment = 16;

// The engines that add by themselves, for a step with the part's batch; there may be none. Errors:
// those of the catalog except UNIMPLEMENTED.
absl::StatusOr<std::vector<Engine>> AddingEngines(const StepSignature& part,
                                                  EngineCatalog& catalog);

// Scratch bytes, in addition to the engine's workspace, of a part after the first whose engine does
// not add by itself. 0 except in backward_params.
int64_t DivisionScratchBytes(const StepSignature& signature);

// The kernel of an engine by name; an empty name means the only engine that there is.
// Errors: NOT_FOUND if the backend does not list it; INVALID_ARGUMENT if it needs more than
// `workspace_bytes`, or if the name is empty and there are several; those of Backend::MakeKernel.
absl::StatusOr<std::unique_ptr<Kernel>> MakeKernelWithin(Backend& backend,
                                                         const StepSignature& signature,
                                                         std::string_view engine,
                                                         int64_t workspace_bytes);

// The kernel that runs `parts` in order; their batches must sum to the step's batch.
// Errors: INVALID_ARGUMENT for a step that is not divisible, parts that do not sum to its batch, or
// a part that adds when there is nothing to add to; those of MakeKernelWithin().
absl::StatusOr<std::unique_ptr<Kernel>> MakeDividedKernel(Backend& backend,
                                                          const StepSignature& signature,
                                                          absl::Span<const EngineUse> parts,
                                                          int64_t workspace_bytes);

}  // namespace neap
