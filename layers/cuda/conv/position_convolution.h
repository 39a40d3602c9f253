// Linear layers at each position: convolutions with a kernel and a stride of 1 over sequences,
// images and volumes with channels last, as one matrix product over all positions.
//
// With channels last, x and y of all examples are matrices, and so is the weight. cuBLASLt's
// products of these are as fast as any, and their choice does not need a GPU to be listed. Forward
// adds the bias in the product, which costs 3 us where a pass of its own would take 74 at the
// memory's speed (H200, bf16, 768 to 3072 channels at 25,216 positions). In 16 bits the bias is
// rounded to the type, and the sum once, where a pass would round the product, too; in fp32 both
// have the same bits, unless cuBLAS takes another algorithm.
//
// Forward also adds a tensor like y, such as what a residual branch bypasses
// (layers/fusion/residual_convolution.h).
//
// The gradient of the bias is not summed in the product of the weight's gradient, although cuBLASLt
// could: that costs 64 to 76 us there and 475 us for 96 to 384 channels at 802,816 positions,
// where a pass would take 37 and 147 at the memory's speed.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/conv/cudnn_convolution.h"

namespace neap::cuda {

// The engines for channels last, a kernel and stride of 1 and neither groups nor padding; none for
// all others.
std::vector<Engine> PositionEngines(const ConvolutionProblem& problem);
// Whether they come before cuDNN's: for sequences, which are images of one row
// (layers/catalog/kernel_axes.h), and with a bias.
bool PositionIsFirstChoice(const ConvolutionProblem& problem);
absl::StatusOr<std::unique_ptr<ConvolutionPlan>> BuildPosition(const SharedRuntime& runtime,
                                                               const ConvolutionProblem& problem,
                                                               std::string_view engine);

}  // namespace neap::cuda
