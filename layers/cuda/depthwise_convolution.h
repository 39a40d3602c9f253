// Depthwise convolutions with kernels of neap's own (layers/cuda/kernels/depthwise.h): of mobile
// networks, whose images they read and write about as fast as memory allows.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/cudnn_convolution.h"

namespace neap::cuda {

inline constexpr std::string_view kDepthwiseEngine = "neap-depthwise";

// The engine for as many groups as channels of x and of y, a kernel of 3x3 or 5x5, and a stride of
// 1 or 2 both ways, without dilation; nullopt for all others. Sums are in fp32, so it is none of
// those that add in fp16.
std::optional<Engine> DepthwiseEngine(const ConvolutionProblem& problem);
absl::StatusOr<std::unique_ptr<ConvolutionPlan>> BuildDepthwise(const SharedRuntime& runtime,
                                                                const ConvolutionProblem& problem);

}  // namespace neap::cuda
