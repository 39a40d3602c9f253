// What the kernels of batch norm have in common: the normalised values, and the mask that says
// where a ReLU behind a sum is 0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/cuda/kernels/norm/batch_norm.h"

namespace neap::kernels {

// y = (x - mean) * (invstd * gamma) + beta as a T, the value that a batch norm alone stores.
// Forward, its rerun and the ReLU's gradient all compute it this way, so their bits agree.
template <typename T>
__device__ __forceinline__ float Normalised(float x, float mean, float scale, float beta) {
  return Rounded<T>(fmaf(x - mean, scale, beta));
}

// What normalises a vector.
template <int kVec>
struct Normalisation {
  Vec<kVec> mean, scale, beta;
  template <typename T>
  __device__ __forceinline__ float Of(float x, int k) const {
    return Normalised<T>(x, mean.v[k], scale.v[k], beta.v[k]);
  }
};

// Only inference calls it, so it is not copied into every kernel for every lane.
static __device__ __noinline__ float InverseDeviation(float variance, float epsilon) {
  return 1.0F / sqrtf(variance + epsilon);
}

template <bool kLast, int kVec>
__device__ __forceinline__ Normalisation<kVec> NormalisationOf(const BatchNormOperands& in,
                                                               size_t c) {
  const Vec<kVec> gamma = PerChannel<kLast, kVec>(in.gamma, c);
  Normalisation<kVec> of = {PerChannel<kLast, kVec>(in.mean, c),
                            PerChannel<kLast, kVec>(in.invstd, c),
                            PerChannel<kLast, kVec>(in.beta, c)};
  if (in.from_variance) {
#pragma unroll
    for (float& f : of.scale.v) f = InverseDeviation(f, in.epsilon);
  }
#pragma unroll
  for (int k = 0; k < kVec; ++k) of.scale.v[k] *= gamma.v[k];
  return of;
}

// A byte of the mask has the bits of as many elements as a wide vector.
template <typename T, int kVec>
__device__ __forceinline__ unsigned ReadMask(const uint8_t* mask, size_t i) {
  if constexpr (kVec == 1) {
    return static_cast<unsigned>(mask[i / kWide<T>]) >> (i % kWide<T>);
  } else {
    static_assert(kVec == kWide<T>);
    return mask[i];
  }
}
// 0 where the ReLU's result is. Without a mask, `bits` are all 1.
template <int kVec>
__device__ __forceinline__ void ApplyMask(unsigned bits, Vec<kVec>& d) {
#pragma unroll
  for (int k = 0; k < kVec; ++k) d.v[k] = (bits >> k & 1) != 0 ? d.v[k] : 0.0F;
}

inline bool AllAligned16(const BatchNormOperands& in) {
  return AllAligned16(in.x, in.mean, in.invstd, in.gamma, in.beta);
}

}  // namespace neap::kernels
