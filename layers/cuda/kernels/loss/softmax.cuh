// The softmax over the classes of one pixel, by one thread, and of a row, by a block.
#pragma once

#include <cfloat>
#include <cmath>

#include "neap/layers/cuda/kernels/loss/loss.cuh"

namespace neap::kernels {

// Reads a column of logits, and tells a class's probability from its logit.
struct ColumnSoftmax {
  template <typename T>
  __device__ __forceinline__ ColumnSoftmax(const Pixels& p, const T* column) {
    for (int c = 0; c < p.classes; ++c) largest = fmaxf(largest, ToFloat(column[c * p.Apart()]));
    for (int c = 0; c < p.classes; ++c) sum += expf(ToFloat(column[c * p.Apart()]) - largest);
  }
  // The negative logarithm of the probability.
  __device__ __forceinline__ float Entropy(float logit) const {
    return logf(sum) + largest - logit;
  }
  // y may be the column.
  template <typename T>
  __device__ __forceinline__ void Store(const Pixels& p, const T* column, float* y) const {
    for (int c = 0; c < p.classes; ++c)
      y[c * p.Apart()] = expf(ToFloat(column[c * p.Apart()]) - largest) / sum;
  }
  float largest = -FLT_MAX, sum = 0;
};

// Whether the logit of class c leaves the label's, `own`, as the largest: it is smaller, or the
// same of a class behind, because ties go to the first one. Nothing is the largest beside a NaN.
__device__ __forceinline__ bool IsBelow(int c, float logit, int32_t label, float own) {
  return c < label ? logit < own : logit <= own;
}

// The sums of a row of logits, which a block reads once. Each thread adds its logits, of which none
// is above `largest` when it is added: RaiseTo() comes before.
struct RowSums {
  __device__ __forceinline__ void RaiseTo(float next) {
    sum *= expf(largest - next);
    largest = next;
  }
  __device__ __forceinline__ void Add(int c, float logit, int32_t label, float own) {
    sum += expf(logit - largest);
    above += IsBelow(c, logit, label, own) ? 0.0F : 1.0F;
  }
  // Makes them those of the whole row. Ends with a barrier, so the row may change behind it.
  __device__ __forceinline__ void Reduce() {
    const float of_row = BlockReduce<true>(largest);
    sum = BlockReduce<false>(sum * expf(largest - of_row));
    largest = of_row;
    above = BlockReduce<false>(above);
  }
  // The negative logarithm of the probability.
  __device__ __forceinline__ float Entropy(float logit) const {
    return logf(sum) + largest - logit;
  }
  float largest = -FLT_MAX, sum = 0;
  float above = 0;  // the logits because of which the label's is not the first of the largest
};

// Whether the label's logit is the first of the largest.
template <typename T>
__device__ __forceinline__ bool IsLargest(const Pixels& p, const T* column, int32_t label) {
  const float own = ToFloat(column[label * p.Apart()]);
  bool is_largest = true;
  for (int c = 0; c < p.classes; ++c)
    is_largest &= IsBelow(c, ToFloat(column[c * p.Apart()]), label, own);
  return is_largest;
}

}  // namespace neap::kernels
