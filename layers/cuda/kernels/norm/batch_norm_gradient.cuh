// The gradients of batch norm, whatever reads x and dy.
#pragma once

#include <cstddef>
#include <cstdint>

#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/cuda/kernels/norm/batch_norm.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm.h"

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

// The gradient that reaches the normalisation: dy, or 0 where the ReLU's result is. `scale` is
// gamma * invstd. Only a ReLU needs beta.
template <typename T, int kVec>
__device__ __forceinline__ Vec<kVec> Before(bool relu, const Packed<T, kVec>& dy,
                                            const Vec<kVec>& x, const Vec<kVec>& mean,
                                            const Vec<kVec>& scale, const Vec<kVec>& beta) {
  Vec<kVec> dz = Unpack(dy);
  if (!relu) return dz;
#pragma unroll
  for (int k = 0; k < kVec; ++k) {
    dz.v[k] = ReluGradient(Normalised<T>(x.v[k], mean.v[k], scale.v[k], beta.v[k]), dz.v[k]);
  }
  return dz;
}
template <bool kLast, int kVec>
__device__ __forceinline__ Vec<kVec> BetaOf(const BatchNormOperands& in, bool relu, size_t c) {
  return relu ? PerChannel<kLast, kVec>(in.beta, c) : Vec<kVec>{};
}

// What the sums depend on per channel.
template <int kVec>
struct SumConstants {
  Centred<kVec> centred;
  Vec<kVec> scale, beta;
};
template <bool kLast, int kVec>
__device__ __forceinline__ SumConstants<kVec> SumConstantsOf(const BatchNormOperands& in, bool relu,
                                                             size_t c) {
  SumConstants<kVec> of = {CentredOf<kLast, kVec>(in, c), PerChannel<kLast, kVec>(in.gamma, c),
                           BetaOf<kLast, kVec>(in, relu, c)};
#pragma unroll
  for (int k = 0; k < kVec; ++k) of.scale.v[k] *= of.centred.invstd.v[k];
  return of;
}

// Adds dz and dz * (x - mean) * invstd to the sums.
template <int kVec>
__device__ __forceinline__ void AddSums(const Vec<kVec>& dz, const Vec<kVec>& x,
                                        const Centred<kVec>& centred, Accumulators<2, kVec>& sums) {
#pragma unroll
  for (int k = 0; k < kVec; ++k) {
    sums.v[0].v[k] += dz.v[k];
    sums.v[1].v[k] += dz.v[k] * centred.Of(x.v[k], k);
  }
}
// The same, where dz is dy behind the ReLU, if there is one.
template <typename T, int kVec>
__device__ __forceinline__ void AddGradient(bool relu, const Packed<T, kVec>& dy,
                                            const Vec<kVec>& x, const SumConstants<kVec>& of,
                                            Accumulators<2, kVec>& sums) {
  AddSums(Before<T>(relu, dy, x, of.centred.mean, of.scale, of.beta), x, of.centred, sums);
}

// What is loaded for a vector of dx; `sum`, what is there already, if the gradient is added to it.
template <typename T, int kVec>
struct LoadedGradient {
  Packed<T, kVec> x, dy, sum;
};
// dx.
template <typename T, int kVec>
__device__ __forceinline__ Vec<kVec> GradientOf(bool relu, const LoadedGradient<T, kVec>& loaded,
                                                const Derivative<kVec>& of, const Vec<kVec>& beta,
                                                float inverse_count) {
  const Vec<kVec> x = Unpack(loaded.x);
  Vec<kVec> d = Before<T>(relu, loaded.dy, x, of.centred.mean, of.scale, beta);
#pragma unroll
  for (int k = 0; k < kVec; ++k) d.v[k] = of.Of(x.v[k], d.v[k], inverse_count, k);
  return d;
}
// Adds the sum to d, as if d had been stored before.
template <typename T, int kVec>
__device__ __forceinline__ void AddSum(const LoadedGradient<T, kVec>& loaded, Vec<kVec>& d) {
  const Vec<kVec> sum = Unpack(loaded.sum);
#pragma unroll
  for (int k = 0; k < kVec; ++k) d.v[k] = __fadd_rn(Rounded<T>(d.v[k]), sum.v[k]);
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
