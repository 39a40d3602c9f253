// What the kernels of group norm and layer norm have in common.
#pragma once

#include <cstddef>
#include <cstdint>

#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm_gradient.cuh"
#include "neap/layers/cuda/kernels/norm/image_norm.h"

namespace neap::kernels {

// The channel's value for each lane of a vector; `absent` without an array.
template <bool kLast, int kVec>
__device__ __forceinline__ Vec<kVec> PerChannelOr(const float* p, size_t c, float absent) {
  return p == nullptr ? Broadcast<kVec>(absent) : PerChannel<kLast, kVec>(p, c);
}

// Whether the parameters may be read in vectors, as they are with the channels last.
inline bool HasAlignedParameters(const ChannelShape& s, const ImageNormOperands& in) {
  return !s.channels_last || AllAligned16(in.gamma, in.beta);
}

// dx = invstd * (gamma * dy - a - xhat * b), where a and b are the means of gamma * dy and of gamma
// * dy * xhat over the values that are normalised together. It is 0 for a single one.
template <int kVec>
__device__ __forceinline__ Vec<kVec> ImageNormGradient(const Centred<kVec>& centred,
                                                       const Vec<kVec>& gamma, const Vec<kVec>& a,
                                                       const Vec<kVec>& b, const Vec<kVec>& x,
                                                       const Vec<kVec>& dy) {
  Vec<kVec> d;
#pragma unroll
  for (int k = 0; k < kVec; ++k) {
    const float centre = a.v[k] + centred.Of(x.v[k], k) * b.v[k];
    d.v[k] = centred.invstd.v[k] * (__fmul_rn(gamma.v[k], dy.v[k]) - centre);
  }
  return d;
}

// Stores a channel's sums of dy and dy * xhat, or adds them to what is there.
struct ImageNormSumsFinal {
  ImageNormSums sums;
  __device__ void operator()(uint32_t c, const Sums<2>::Of<double>& total) const {
    if (sums.dbeta != nullptr) StoreSum{sums.dbeta, sums.adds_dbeta}(c, {{total.v[0]}});
    StoreSum{sums.dgamma, sums.adds_dgamma}(c, {{total.v[1]}});
  }
};

template <typename T, int kVec>
struct LoadedPair {
  Packed<T, kVec> x, dy;
};

}  // namespace neap::kernels
