// The softmax over the classes of one pixel, by one thread.
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

// Whether every class before the label's is smaller and none after it is larger: ties go to the
// first class, and no class is the largest beside a NaN.
template <typename T>
__device__ __forceinline__ bool IsLargest(const Pixels& p, const T* column, int32_t label) {
  const float own = ToFloat(column[label * p.Apart()]);
  bool beaten = false;
  for (int c = 0; c < p.classes; ++c) {
    const float other = ToFloat(column[c * p.Apart()]);
    beaten |= !(c < label ? other < own : other <= own);
  }
  return !beaten;
}

}  // namespace neap::kernels
