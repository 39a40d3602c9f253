// The launchers of the kernels that a convolution with a folded batch norm runs around its matrix
// products. The names of matrices are those of layers/fusion/folded_convolution.h; all are
// row-major.
//
// The small matrices take a few microseconds each, whatever the batch. Sums over pixels arrive as
// parts, one per product of a batch of products, and are added here.
//
//   x^T x in parts -> FoldedMoments -> FoldedProduct -> Fold -> y = relu(x F^T + b + x_1)
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "neap/layers/cuda/kernels/array.h"

namespace neap::kernels {

// x is {pixels, in}, y and dz are {pixels, out}, the weight and F are {out, in}.
struct FoldedShape {
  int64_t pixels = 0, in = 0, out = 0;
};

// mean {in} = sums / pixels; cov {in, in} = the sum of `count` parts / pixels - mean mean^T.
cudaError_t FoldedMoments(const FoldedShape& shape, const float* sums, const float* parts,
                          int64_t count, float* mean, float* cov, cudaStream_t stream);

// product {out, in} = W cov.
cudaError_t FoldedProduct(const FoldedShape& shape, ConstArray weight, const float* cov,
                          float* product, cudaStream_t stream);

// The batch norm of the convolution's result. `mean` is that of x {in}; the others are {out}.
// invstd is written by the first run in training, and read otherwise.
struct FoldedNorm {
  const float* gamma = nullptr;
  const float* beta = nullptr;
  const float* mean = nullptr;
  float* invstd = nullptr;
  bool relu = false;  // whether a ReLU follows
};
// What the first run in training also computes: invstd, from W cov, and the running statistics.
struct FoldedStatistics {
  const float* product = nullptr;
  float* running_mean = nullptr;
  float* running_var = nullptr;
  float epsilon = 0;
  float momentum = 0;
};
// Writes F and, unless it is null, b. `statistics` may be null: then invstd is read. A ReLU by
// cuBLASLt may make 0 of NaN, so if one follows and F_k or b_k is not finite, b_k is infinity and
// F_k is 0.
cudaError_t Fold(const FoldedShape& shape, ConstArray weight, const FoldedNorm& norm,
                 const FoldedStatistics* statistics, Array folded, Array bias, cudaStream_t stream);
// The same with the running statistics, for inference.
cudaError_t FoldRunning(const FoldedShape& shape, ConstArray weight, const FoldedNorm& norm,
                        const FoldedStatistics& statistics, Array folded, Array bias,
                        cudaStream_t stream);

// What Fold() computes of the statistics, and the mean of the convolution's result {out} instead of
// F and b. If `statistics` is null, only the mean.
cudaError_t FoldedMean(const FoldedShape& shape, ConstArray weight, const FoldedNorm& norm,
                       const FoldedStatistics* statistics, float* mean, cudaStream_t stream);

// dweight and dgamma of H, the sum of `count` parts, which are overwritten, and W cov.
cudaError_t FoldedWeightGradient(const FoldedShape& shape, ConstArray weight,
                                 const FoldedNorm& norm, const float* product, const float* dbeta,
                                 float* parts, int64_t count, float* dweight, float* dgamma,
                                 cudaStream_t stream);

// -M {in, in}, times ProjectionFactor(), a power of 2 by which fp16 holds it: M has one over the
// number of pixels in it, and would be too small. The scratch memory is ProjectionScratchBytes().
float ProjectionFactor(const FoldedShape& shape);
int64_t ProjectionScratchBytes(const FoldedShape& shape);
cudaError_t FoldedProjection(const FoldedShape& shape, ConstArray weight, const FoldedNorm& norm,
                             const float* dgamma, void* scratch, Array projection,
                             cudaStream_t stream);
// What dx has at x = dz = 0 {in}: mean M - dbeta F / pixels. The projection is the product above.
cudaError_t FoldedShift(const FoldedShape& shape, ConstArray folded, ConstArray projection,
                        const float* mean, const float* dbeta, Array shift, cudaStream_t stream);

}  // namespace neap::kernels
