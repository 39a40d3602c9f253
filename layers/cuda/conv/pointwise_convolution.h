// 1x1 convolutions of NCHW images as matrix products, one per image.
//
// In fp32 (no tensor cores) cuDNN's deterministic engines take up to seven times as long as its
// others for the gradients of these convolutions, while cuBLASLt's batched products are
// deterministic and as fast as any. With a stride, the used pixels are gathered first (or scattered
// last). The weight's gradient is a sum over images: each of several parts adds up its share, then
// the parts are added in order (layers/cuda/conv/image_parts.h).
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/conv/cudnn_convolution.h"

namespace neap::cuda {

inline constexpr std::string_view kPointwiseEngine = "cublaslt-1x1";

// The engine for fp32, NCHW, 1x1 convolutions without groups or padding whose result is written,
// not accumulated; nullopt for all others.
std::optional<Engine> PointwiseEngine(const ConvolutionProblem& problem);
// Whether it is likely to be faster than cuDNN's deterministic engines.
bool PointwiseIsFirstChoice(const ConvolutionProblem& problem);
absl::StatusOr<std::unique_ptr<ConvolutionPlan>> BuildPointwise(const SharedRuntime& runtime,
                                                                const ConvolutionProblem& problem);

}  // namespace neap::cuda
