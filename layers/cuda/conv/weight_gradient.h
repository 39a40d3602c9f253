// Weight gradients in fp32 of convolutions of 16-bit tensors.
//
// cuDNN (9.19, H200) has no engine that writes an fp32 gradient of 16-bit operands. So every engine
// that writes a gradient of the operands' type becomes another engine, "cast:eng65_k2=5": its
// gradient, a sum in fp32 that is rounded once (or a sum in fp16, if the problem says so), is
// written to the workspace, converted to fp32, and stored or added. Its workspace is [16-bit
// gradient, the engine's workspace).
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/conv/cudnn_convolution.h"

namespace neap::cuda {

// cuDNN's engines of the problem; then, for an fp32 gradient of 16-bit tensors, those that cast.
// Errors: UNIMPLEMENTED if there are none.
absl::StatusOr<std::vector<Engine>> ConvolutionEngines(const ConvolutionProblem& problem,
                                                       CudnnConvolutions& cudnn);

// `engine` is the id of one of ConvolutionEngines(problem).
absl::StatusOr<std::unique_ptr<ConvolutionPlan>> BuildConvolution(const SharedRuntime& runtime,
                                                                  const ConvolutionProblem& problem,
                                                                  std::string_view engine);

}  // namespace neap::cuda
