// cuDNN's engines that compute y = relu(convolution(x) + bias) in one pass, with sums in fp32 that
// are rounded once.
//
// cuDNN (9.19, H200) adds a bias of the type of y alone. So for 16-bit tensors the fp32 bias is
// rounded to their type first, as PyTorch's autocast does, into the workspace: it is [16-bit bias,
// the engine's workspace).
//
// cuDNN lists some thirty of them for a problem. Each that neap lists is measured on every size of
// the batch, so it takes few: the first eight that use tensor cores, in cuDNN's order, or the first
// four if none does.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/conv/cudnn_convolution.h"

namespace neap::cuda {

// The bytes of the bias in the type of y; 0 if that is its own.
int64_t NarrowBiasBytes(const ConvolutionProblem& problem);

// `problem` has a ReLU. Errors: UNIMPLEMENTED if there are none.
absl::StatusOr<std::vector<Engine>> BiasReluEngines(const ConvolutionProblem& problem,
                                                    CudnnConvolutions& cudnn);

// `engine` is the id of one of BiasReluEngines(problem).
absl::StatusOr<std::unique_ptr<ConvolutionPlan>> BuildBiasRelu(const SharedRuntime& runtime,
                                                               const ConvolutionProblem& problem,
                                                               std::string_view engine);

}  // namespace neap::cuda
