// Launchers of the kernels of language models: of layers/tokens. Positions are counted over all
// examples: position t of example n is n * T + t. Shapes are {outer N, channels C, inner T}.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "neap/layers/cuda/kernels/array.h"
#include "neap/layers/cuda/kernels/loss/loss.h"

namespace neap::kernels {

// embedding.cu. The rows of a weight {vocabulary, C}; ids outside are rows of NaN. There are fewer
// than 2^31 positions.
cudaError_t Embed(const ChannelShape& y, int64_t vocabulary, const int32_t* ids, ConstArray weight,
                  Array y_values, cudaStream_t stream);
// dweight = (or, if `add`, +=) the sums of dy over the positions of each id, in their order.
// Positions of the id `padding`, and of ids outside, are left out; a negative one is no id.
struct EmbeddingGradient {
  int64_t vocabulary = 0;
  int64_t padding = -1;
  bool add = false;
};
int64_t EmbeddingScratchBytes(const ChannelShape& dy);
cudaError_t EmbeddingBackward(const ChannelShape& shape, const EmbeddingGradient& options,
                              const int32_t* ids, ConstArray dy, float* dweight, void* scratch,
                              cudaStream_t stream);

// positions.cu. y = x + weight, with `of_example` elements of the weight for each of the examples;
// y may be x.
cudaError_t AddPositions(int64_t examples, int64_t of_example, ConstArray x, ConstArray weight,
                         Array y, cudaStream_t stream);
// dx = dy, which it may be; dweight = (or, if `add`, +=) the sum of dy over the examples.
cudaError_t AddPositionsBackward(int64_t examples, int64_t of_example, ConstArray dy, Array dx,
                                 float* dweight, bool add, cudaStream_t stream);
// y {N, C, T + 1} is the weight {C} at position 0, and x {N, C, T} behind it. The shape is x's.
cudaError_t PrependToken(const ChannelShape& shape, ConstArray x, ConstArray weight, Array y,
                         cudaStream_t stream);
// The inverse: dweight = (or, if `add`, +=) the sum of dy at position 0 over the examples.
cudaError_t PrependTokenBackward(const ChannelShape& shape, ConstArray dy, Array dx, float* dweight,
                                 bool add, cudaStream_t stream);

// token_loss.cu. A chunk of rows of logits, one for each position, `apart` elements from one to the
// next, a multiple of 16 bytes.
struct LogitRows {
  int64_t rows = 0;
  int64_t classes = 0;
  int64_t apart = 0;
  const float* bias = nullptr;  // of each class, added to the logits; may be null
};
// How the gradient of the mean is scaled.
struct GradientScale {
  int64_t labels_of_batch = 1;
  float weight = 1;
  const LossScale* loss_scale = nullptr;  // may be null
};
// The loss of each row, and whether its label is the first of the largest logits, as {loss, 1 or
// 0}; the losses also go to `losses`, which may be null.
cudaError_t TokenLosses(const LogitRows& shape, ConstArray logits, const int32_t* labels,
                        float* scores, float* losses, cudaStream_t stream);
// The same, and the gradient takes the place of the logits.
cudaError_t TokenGradients(const LogitRows& shape, const GradientScale& scale, Array logits,
                           const int32_t* labels, float* scores, cudaStream_t stream);
// The mean loss, and the number of correct labels, of the scores of `positions`.
cudaError_t TokenMetrics(int64_t positions, const float* scores, int64_t labels_of_batch,
                         LossMetrics metrics, cudaStream_t stream);
// sums[c] = (or, if `add`, +=) the sum of class c over the rows, in their order.
cudaError_t SumRows(const LogitRows& shape, ConstArray rows, float* sums, bool add,
                    cudaStream_t stream);

}  // namespace neap::kernels
