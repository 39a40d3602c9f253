// Launchers of the kernels of batch norm, alone and together with what stands beside it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "neap/layers/cuda/kernels/array.h"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {

// batch_norm.cu
struct BatchNormState {
  float* mean = nullptr;
  float* invstd = nullptr;
  float* running_mean = nullptr;
  float* running_var = nullptr;
};
cudaError_t BatchNormStatistics(const ChannelShape& shape, ConstArray x, float epsilon,
                                float momentum, const BatchNormState& state,
                                const ReductionMemory& memory, cudaStream_t stream);
struct BatchNormOperands {
  ConstArray x;
  const float* gamma = nullptr;
  const float* beta = nullptr;
  const float* mean = nullptr;
  const float* invstd = nullptr;  // or, for inference, the variance, with epsilon
  bool from_variance = false;
  float epsilon = 0;
};
// What follows the normalisation in the same pass: the sum with an addend, which is `addend.x`, if
// any, normalised if `addend` has the rest, too; then a ReLU. `mask`, if any, says where
// the result is 0 (layers/fusion/norm_pass.h).
struct BatchNormEpilogue {
  BatchNormOperands addend;
  bool relu = false;
  uint8_t* mask = nullptr;
};
cudaError_t BatchNormApply(const ChannelShape& shape, const BatchNormOperands& in,
                           const BatchNormEpilogue& epilogue, Array y, cudaStream_t stream);

// relu_mask.cu
// The mask of layers/fusion/norm_pass.h of n elements.
cudaError_t ReluMask(ConstArray y, int64_t n, uint8_t* mask, cudaStream_t stream);

// dz = dy + other, or 0 where the mask says so; dbeta = the sum of dz per channel. `other` may be
// null, and dz may be dy. The scratch memory is ChannelScratchBytes().
cudaError_t MaskedGradient(const ChannelShape& shape, ConstArray dy, ConstArray other,
                           const uint8_t* mask, Array dz, float* dbeta,
                           const ReductionMemory& memory, cudaStream_t stream);

// batch_norm_backward.cu
// The gradient that reaches the normalisation is dy, or 0 where the ReLU's result is: where `mask`
// says so, or, if `relu`, where the result's sign, computed again from x, does. It is also written
// to `daddend`, if any, which may be dy.
struct BatchNormGradient {
  ConstArray dy;
  ConstArray other;  // to be added to dy, or null; only with daddend
  bool relu = false;
  const uint8_t* mask = nullptr;
  Array daddend;
};
struct BatchNormSums {
  float* dgamma = nullptr;
  float* dbeta = nullptr;
};
cudaError_t BatchNormBackward(const ChannelShape& shape, const BatchNormOperands& in,
                              const BatchNormGradient& gradient, const BatchNormSums& sums,
                              Array dx, const ReductionMemory& memory, cudaStream_t stream);
// Of both batch norms of a sum, behind which there may be a ReLU. dx and dother may be dy, x and
// other.
struct SummedBatchNorms {
  BatchNormOperands first, second;
  BatchNormSums first_sums, second_sums;
  Array dx, dother;
};
cudaError_t SummedBatchNormsBackward(const ChannelShape& shape, const SummedBatchNorms& norms,
                                     ConstArray dy, const uint8_t* mask,
                                     const ReductionMemory& memory, cudaStream_t stream);

// batch_norm_activated.cu. What BatchNormApply() would store without an epilogue is the input of an
// activation (layers/cuda/kernels/activation.cuh), whose result y is. `low` and `high` are the
// bounds of a clip, rounded to the type.
struct BatchNormActivation {
  enum class Function : uint8_t { kClip, kHardSwish, kSilu };
  Function function = Function::kClip;
  float low = 0, high = 0;
};
cudaError_t BatchNormActivated(const ChannelShape& shape, const BatchNormOperands& in,
                               const BatchNormActivation& activation, Array y, cudaStream_t stream);
// dx may be dy.
cudaError_t BatchNormActivatedBackward(const ChannelShape& shape, const BatchNormOperands& in,
                                       const BatchNormActivation& activation, ConstArray dy,
                                       const BatchNormSums& sums, Array dx,
                                       const ReductionMemory& memory, cudaStream_t stream);

// batch_norm_parts.cu. Batch norm of parts that are concatenated along the channels, nowhere in
// memory. `shape` is that of the concatenation, whose images have fewer than 2^31 elements; `in.x`
// and `in.from_variance` are as for BatchNormApply(), but `in.x` is null. A gradient is added to dx
// if `adds`, after it has been rounded as if it were stored.
inline constexpr int kMaxParts = 96;
struct BatchNormPart {
  int64_t channels = 0;
  ConstArray x;
  Array dx = {};  // backward only
  bool adds = false;
};
struct BatchNormParts {
  const BatchNormPart* parts = nullptr;
  int count = 0;
};
cudaError_t BatchNormStatistics(const ChannelShape& shape, const BatchNormParts& x, float epsilon,
                                float momentum, const BatchNormState& state,
                                const ReductionMemory& memory, cudaStream_t stream);
cudaError_t BatchNormApply(const ChannelShape& shape, const BatchNormParts& x,
                           const BatchNormOperands& in, bool relu, Array y, cudaStream_t stream);
cudaError_t BatchNormBackward(const ChannelShape& shape, const BatchNormParts& parts,
                              const BatchNormOperands& in, ConstArray dy, bool relu,
                              const BatchNormSums& sums, const ReductionMemory& memory,
                              cudaStream_t stream);

// batch_norm_slice.cu. The result, or the gradient of the result, is some channels of a
// concatenation of `channels` channels, whose images have fewer than 2^31 elements. `y` and `dy`
// begin with the first of them. A gradient is added to dx if `adds`, as above.
cudaError_t BatchNormApplySlice(const ChannelShape& shape, const BatchNormOperands& in, bool relu,
                                Array y, int64_t channels, cudaStream_t stream);
cudaError_t BatchNormBackwardSlice(const ChannelShape& shape, const BatchNormOperands& in,
                                   bool relu, ConstArray dy, int64_t channels,
                                   const BatchNormSums& sums, Array dx, bool adds,
                                   const ReductionMemory& memory, cudaStream_t stream);

// sync_batch_norm.cu, and batch_norm.cu for the statistics of one rank. The statistics of all
// ranks, and their gradients (layers/fusion/sync_batch_norm.h).
struct BatchNormRow {
  float* count = nullptr;  // and what follows it, up to the means
  float* mean = nullptr;
  float* squares = nullptr;
};
struct BatchNormRows {
  BatchNormRow first;  // of rank 0
  int64_t length = 0;  // elements from one row to the next
  int ranks = 1;
};
// Writes the row of the rank, and 0 to the others.
cudaError_t BatchNormRankStatistics(const ChannelShape& shape, ConstArray x, int rank,
                                    const BatchNormRows& rows, const ReductionMemory& memory,
                                    cudaStream_t stream);
// Writes the mean and invstd of all rows, and updates the running statistics.
cudaError_t BatchNormCombine(const BatchNormRows& rows, int64_t channels, float epsilon,
                             float momentum, const BatchNormState& state, cudaStream_t stream);
// dx = gamma * invstd * dy, which may be dy; and what that contributes to the rows' gradients.
cudaError_t BatchNormDirectBackward(const ChannelShape& shape, const BatchNormOperands& in,
                                    ConstArray dy, const BatchNormRows& rows,
                                    const BatchNormRows& gradients, const BatchNormSums& sums,
                                    Array dx, const ReductionMemory& memory, cudaStream_t stream);
// dx = (or, if `adds`, +=) the gradient by the rank's row.
cudaError_t BatchNormStatisticsBackward(const ChannelShape& shape, ConstArray x,
                                        const BatchNormRow& row, const BatchNormRow& gradient,
                                        Array dx, bool adds, cudaStream_t stream);

// batch_norm_average.cu. What BatchNormApply() would store is averaged over each image and channel
// instead: y is {outer, channels}. The mask is that of what is averaged. Backward is as above, but
// dy is the gradient of the averages, and no result may be dy.
cudaError_t BatchNormAverage(const ChannelShape& shape, const BatchNormOperands& in,
                             const BatchNormEpilogue& epilogue, Array y, cudaStream_t stream);
cudaError_t BatchNormAverageBackward(const ChannelShape& shape, const BatchNormOperands& in,
                                     const BatchNormGradient& gradient, const BatchNormSums& sums,
                                     Array dx, const ReductionMemory& memory, cudaStream_t stream);
cudaError_t SummedBatchNormsAverageBackward(const ChannelShape& shape,
                                            const SummedBatchNorms& norms, ConstArray dy,
                                            const uint8_t* mask, const ReductionMemory& memory,
                                            cudaStream_t stream);

// batch_norm.cu, batch_norm_backward.cu. Max pooling of relu(batch_norm(x)), which is not stored.
// The index is kStopsAtRelu where the maximum is 0, and null if it is not needed. `channels` are
// those of the image.
cudaError_t BatchNormReluPool(const PoolShape& shape, int64_t channels, const BatchNormOperands& in,
                              Array y, uint8_t* index, cudaStream_t stream);
// dx is neither x nor dy.
cudaError_t BatchNormPoolBackward(const ChannelShape& channels, const PoolShape& shape,
                                  const BatchNormOperands& in, ConstArray dy, const uint8_t* index,
                                  const BatchNormSums& sums, Array dx,
                                  const ReductionMemory& memory, cudaStream_t stream);

}  // namespace neap::kernels
