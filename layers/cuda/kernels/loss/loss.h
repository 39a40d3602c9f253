// Launchers of the kernels of losses.
//
// What a loss makes of its predictions, y, is fp32 whatever the type of the predictions and of
// their gradient. Without labels or targets forward computes y alone, and metrics have a place only
// with them. Gradients are multiplied by the weight, and by the loss scale if there is one.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "neap/layers/cuda/kernels/array.h"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap {
struct LossScale;  // core/step/loss_scale.h
}

namespace neap::kernels {

// The result of a loss. The images may be a part of a batch, and means are over all of it.
struct LossMetrics {
  float* mean_and_correct = nullptr;  // {mean loss, number of correct labels}
  bool add = false;                   // to the metrics of the sub-batches before
};
// Of the scratch memory of SoftmaxCrossEntropy() and TargetLoss().
int64_t LossScratchBytes(const ChannelShape& shape);

// The labels of predictions, which may be finer than these (core/graph/label_grid.h, whose fields
// these are).
struct Labels {
  const int32_t* labels = nullptr;
  int64_t extents[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1};
};

// softmax.cu, over the channels. The targets are those of layers/softmax_cross_entropy.h.
struct ClassTargets {
  static constexpr int kMaxWeights = 256;
  float smoothing = 0;
  float mean_weight = 1;
  int weighted = 0;  // the number of classes, or 0: all weights are 1
  float weights[kMaxWeights] = {};
};
cudaError_t SoftmaxCrossEntropy(const ChannelShape& shape, int64_t labels_of_batch,
                                const ClassTargets& targets, ConstArray logits,
                                const Labels& labels, float* y, LossMetrics metrics, void* scratch,
                                cudaStream_t stream);
cudaError_t SoftmaxCrossEntropyBackward(const ChannelShape& shape, int64_t labels_of_batch,
                                        const ClassTargets& targets, float weight, const float* y,
                                        const Labels& labels, const LossScale* loss_scale, Array dx,
                                        cudaStream_t stream);

// dice.cu, of layers/loss/dice_loss.h. The shape is that of the logits.
struct DiceShape {
  ChannelShape images;
  bool batch = false;   // all images are one set
  int first_class = 0;  // 1 without the background
  float share = 1;      // of a set in the mean over those of the whole batch
};
int64_t DiceScratchBytes(const DiceShape& shape);
// The largest of the kernels' 32-bit counts, which are of positions, blocks and sums, not of
// elements. It must fit in 32 bits.
int64_t DiceCount(const DiceShape& shape);
// `saved` may be null; without it and metrics, only y is computed.
cudaError_t DiceLoss(const DiceShape& shape, float smooth, float cross_entropy, ConstArray logits,
                     const Labels& labels, float* y, float* saved, LossMetrics metrics,
                     void* scratch, cudaStream_t stream);
cudaError_t DiceLossBackward(const DiceShape& shape, float weight, const float* y,
                             const Labels& labels, const float* saved, const LossScale* loss_scale,
                             Array dx, cudaStream_t stream);

// target_loss.cu, of the layers in layers/target_loss.h.
struct TargetLossKind {
  enum class Function { kSquaredError, kSigmoidCrossEntropy, kFocal };
  Function function = Function::kSquaredError;
  float positive_weight = 1;     // of kSigmoidCrossEntropy
  float alpha = 0.5, gamma = 0;  // of kFocal
};
cudaError_t TargetLoss(const TargetLossKind& kind, const ChannelShape& shape,
                       int64_t elements_of_batch, ConstArray x, const float* targets, float* y,
                       LossMetrics metrics, void* scratch, cudaStream_t stream);
cudaError_t TargetLossBackward(const TargetLossKind& kind, const ChannelShape& shape,
                               int64_t elements_of_batch, float weight, const float* y,
                               const float* targets, const LossScale* loss_scale, Array dx,
                               cudaStream_t stream);

}  // namespace neap::kernels
