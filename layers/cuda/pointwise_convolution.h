// 1x1 convolutions of NCHW images as matrix products, one per image.
//
// In fp32 (no tensor cores) cuDNN's deterministic engines take up to seven times as long as its
// others for the gradients of such convolutions; batched products by cuBLASLt, which are
// deterministic, are as fast as any. With a stride, the pixels that count are gathered first (or
// spread out last). The weight's gradient is a sum over images: each of a number of parts adds up
// its share of them, then the parts are added in order.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/cudnn_convolution.h"

namespace neap::cuda {

inline constexpr std::string_view kPointwiseEngine = "cublaslt-1x1";

// Empty where it does not apply: fp32, NCHW, one group, 1x1, no padding, a result that is written.
std::optional<Engine> PointwiseEngine(const ConvolutionProblem& problem);
// Whether it is likely to beat the deterministic engines of cuDNN.
bool PointwiseIsFirstChoice(const ConvolutionProblem& problem);
absl::StatusOr<std::unique_ptr<ConvolutionPlan>> BuildPointwise(const SharedRuntime& runtime,
                                                                const ConvolutionProblem& problem);

}  // namespace neap::cuda
