// The gradients of batch norm, whatever reads x and dy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {

// Constants of a channel that depend on no sum.
template <int kVec>
struct Centred {
  Vec<kVec> mean, invstd;
  __device__ __forceinline__ float Of(float x, int k) const {
    return (x - mean.v[k]) * invstd.v[k];
  }
};
template <bool kLast, int kVec>
__device__ __forceinline__ Centred<kVec> CentredOf(const BatchNormOperands& in, size_t c) {
  return {PerChannel<kLast, kVec>(in.mean, c), PerChannel<kLast, kVec>(in.invstd, c)};
}

// What a gradient depends on per channel: dx = gamma * invstd * (dz - (dbeta + xhat * dgamma) /
// count).
template <int kVec>
struct Derivative {
  Centred<kVec> centred;
  Vec<kVec> scale, sum, product;
  __device__ __forceinline__ float Of(float x, float dz, float inverse_count, int k) const {
    const float centre = (sum.v[k] + centred.Of(x, k) * product.v[k]) * inverse_count;
    return scale.v[k] * (dz - centre);
  }
};
template <bool kLast, int kVec>
__device__ __forceinline__ Derivative<kVec> DerivativeOf(const BatchNormOperands& in,
                                                         const float* dgamma, const float* dbeta,
                                                         size_t c) {
  Derivative<kVec> of = {.centred = CentredOf<kLast, kVec>(in, c),
                         .scale = PerChannel<kLast, kVec>(in.gamma, c),
                         .sum = PerChannel<kLast, kVec>(dbeta, c),
                         .product = PerChannel<kLast, kVec>(dgamma, c)};
#pragma unroll
  for (int k = 0; k < kVec; ++k) of.scale.v[k] *= of.centred.invstd.v[k];
  return of;
}

struct GradientFinal {
  BatchNormSums sums;
  __device__ void operator()(uint32_t c, const Sums<2>::Of<double>& total) const {
    sums.dbeta[c] = static_cast<float>(total.v[0]);
    sums.dgamma[c] = static_cast<float>(total.v[1]);
  }
};

inline float InverseCount(const ChannelShape& s) {
  return static_cast<float>(1.0 / static_cast<double>(s.outer * s.inner));
}

}  // namespace neap::kernels
