// Convolutions of few channels with a stride, as many a network's first layer, by way of others
// that engines are made for.
//
// The pixels of a block as large as the stride become the channels of one pixel (space to depth),
// and the stride becomes 1; zeros fill the channels up to a multiple of four, 16 bytes. The sums
// are the same in another order, with some products by zero:
//
//   AlexNet's first   x 3x224x224, 11x11, stride 4, padding 2   ->   x 48x57x57,   3x3
//   ResNet's          x 3x224x224,  7x7,  stride 2, padding 3   ->   x 12x115x115, 4x4
//   Inception-v4's    x 3x299x299,  3x3,  stride 2              ->   x 12x150x150, 2x2
//
// Without a stride there are only the zeros to add, and on an H200 no engine gains by those.
//
// Every engine that cuDNN has for the other convolution is one more for this, "s2d4x4+eng12_k2=1".
// The rearranged operands lie in its workspace: [x, weight or its gradient, what the engine wants).
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/cudnn_convolution.h"

namespace neap::cuda {

struct SpaceToDepth {
  Extent2d block = 1;          // the stride
  ConvolutionProblem problem;  // the other convolution

  int64_t x_bytes() const;        // of its x in the workspace
  int64_t operand_bytes() const;  // with its weight
};

// Empty where it does not apply: eight channels or more, or four; no stride, or one larger than the
// kernel; groups, dilation; and backward_data, which a first layer does not have.
std::optional<SpaceToDepth> FindSpaceToDepth(const ConvolutionProblem& problem);
// Whether it is likely to beat all engines of the convolution as it is: on tensor cores that read
// channels last, where few products are by zero.
bool SpaceToDepthIsFirstChoice(const ConvolutionProblem& problem);

// In cuDNN's order; none where it does not apply.
absl::StatusOr<std::vector<Engine>> SpaceToDepthEngines(const ConvolutionProblem& problem,
                                                        CudnnConvolutions& cudnn);

// `engine` is the id of one of SpaceToDepthEngines(problem).
absl::StatusOr<std::unique_ptr<ConvolutionPlan>> BuildSpaceToDepth(
    const SharedRuntime& runtime, const ConvolutionProblem& problem, std::string_view engine);

}  // namespace neap::cuda
