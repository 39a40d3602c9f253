// Linear layers at each position of a sequence: convolutions with a kernel of 1 over {N, T, C}, as
// one matrix product over all positions.
//
// With channels last, x and y of all examples are matrices, and so is the weight. cuBLASLt's
// products of these are as fast as any, and their choice does not need a GPU to be listed. Images,
// which have several rows or one pixel, keep cuDNN's engines.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/conv/cudnn_convolution.h"

namespace neap::cuda {

// The engines for sequences (as images of one row, layers/catalog/kernel_axes.h) with channels
// last, a kernel and stride of 1 and neither groups nor padding; none for all others.
std::vector<Engine> PositionEngines(const ConvolutionProblem& problem);
absl::StatusOr<std::unique_ptr<ConvolutionPlan>> BuildPosition(const SharedRuntime& runtime,
                                                               const ConvolutionProblem& problem,
                                                               std::string_view engine);

}  // namespace neap::cuda
