// Strided convolutions of few channels, which are the first layer of many networks, computed as
// convolutions for which engines are optimised.
//
// The pixels of a block as large as the stride become the channels of one pixel (space to depth),
// and the stride becomes 1; the channels are padded with zeros to a multiple of 16 bytes: four
// channels, or eight of 16 bits. The sums are the same in another order, with some additional
// products by zero:
//
//   AlexNet's first   x 3x224x224, 11x11, stride 4, padding 2   ->   x 48x57x57,   3x3
//   ResNet's          x 3x224x224,  7x7,  stride 2, padding 3   ->   x 12x115x115, 4x4
//   Inception-v4's    x 3x299x299,  3x3,  stride 2              ->   x 12x150x150, 2x2
//
// Volumes are rearranged in the same way: with a stride of 2, a 7x7x7 convolution of one channel
// becomes a 4x4x4 convolution of 8 channels. Without a stride, only padded channels would remain,
// which make no engine faster on an H200, and which cuDNN adds itself. For volumes without a
// stride, the elements of a window along W become channels instead. Blocks then overlap, and there
// are fewer products. These engines are listed behind cuDNN's.
//
//   a U-Net's first   x 1x96x96x96, 3x3x3, padding 1   ->   x 8x98x98x96, 3x3x1   instead of 3x3x3
//
// Every engine of the transformed convolution (layers/cuda/conv/weight_gradient.h) becomes another
// engine of the original one, "s2d4x4+eng12_k2=1". Its workspace has the rearranged operands and
// the engine's own workspace: [x, weight or its gradient, the engine's workspace).
#pragma once

#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "neap/layers/cuda/candidates.h"
#include "neap/layers/cuda/conv/cudnn_convolution.h"

namespace neap::cuda {

struct SpaceToDepth {
  Extents block = 1;           // the stride, or the window along W
  ConvolutionProblem problem;  // the transformed convolution

  int64_t x_bytes() const;        // of its x in the workspace
  int64_t operand_bytes() const;  // with its weight
};

// Nullopt if it does not apply: for eight channels or more, or four of fp32; for images without a
// stride, and volumes where that makes no fewer products on tensor cores; for a stride larger than
// the kernel; for groups or dilation; for backward_data, which a first layer does not have.
std::optional<SpaceToDepth> FindSpaceToDepth(const ConvolutionProblem& problem);
// Whether it is likely to be faster than all engines of the original convolution: on tensor cores
// with channels last, if few products are by zero.
bool SpaceToDepthIsFirstChoice(const ConvolutionProblem& problem);

// In cuDNN's order; empty if it does not apply.
absl::StatusOr<std::vector<Engine>> SpaceToDepthEngines(const ConvolutionProblem& problem,
                                                        CudnnConvolutions& cudnn);

// `engine` is the id of one of SpaceToDepthEngines(problem).
absl::StatusOr<std::unique_ptr<ConvolutionPlan>> BuildSpaceToDepth(
    const SharedRuntime& runtime, const ConvolutionProblem& problem, std::string_view engine);

}  // namespace neap::cuda
