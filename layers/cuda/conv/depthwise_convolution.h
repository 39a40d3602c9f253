// Depthwise convolutions, of mobile networks and ConvNeXt, with kernels of neap's own
// (layers/cuda/kernels/depthwise.h).
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/conv/cudnn_convolution.h"

namespace neap::cuda {

inline constexpr std::string_view kDepthwiseEngine = "neap-depthwise";

// The engine for as many groups as channels of x and of y, a kernel of 3x3, 5x5 or 7x7, a stride of
// 1 or 2 both ways, and less padding than the kernel's side, without dilation; nullopt for all
// others. Sums are in fp32, so it is none of those that add in fp16.
std::optional<Engine> DepthwiseEngine(const ConvolutionProblem& problem);
absl::StatusOr<std::unique_ptr<ConvolutionPlan>> BuildDepthwise(const SharedRuntime& runtime,
                                                                const ConvolutionProblem& problem);

}  // namespace neap::cuda
