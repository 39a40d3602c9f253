// Batch norm. Forward computes statistics and then a map that applies them; backward computes sums
// and then a map that uses them. The sum and the ReLU that follow a batch norm take part in its
// passes, so they cost no pass of their own (layers/fused_batch_norm.h).
//
// A variance is a small difference of large sums unless the squared values are near zero.
// Therefore a thread sums (x - x0), where x0 is its first element, and means and squared deviations
// are merged by Chan's formula. An outlier can be the x0 of only one thread's few elements.
#include <type_traits>

#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {
namespace {

// Mean, sum of squared deviations from it, and number of elements.
struct Moments {
  template <typename T>
  struct Of {
    double mean;
    T squares;
    T count;
    template <typename U>
    __device__ void Merge(const Of<U>& other) {
      if (other.count == 0) return;
      const T total = count + other.count;
      const T weight = other.count / total;
      const double delta = other.mean - mean;
      const T d = static_cast<T>(delta);
      squares += other.squares + d * weight * count * d;
      mean += delta * weight;
      count = total;
    }
    __device__ Of Below(int offset) const {
      return {__shfl_down_sync(~0U, mean, offset), __shfl_down_sync(~0U, squares, offset),
              __shfl_down_sync(~0U, count, offset)};
    }
  };
  // Computes the moments from the sums of x - x0 and of its square.
  template <int kVec>
  static __device__ Of<float> Close(const Vec<kVec>& x0, int k, float2 sums, uint32_t count) {
    if (count == 0) return {};
    const float n = static_cast<float>(count);
    const float shift = sums.x / n;
    const float squares = sums.y - sums.x * shift;
    return {static_cast<double>(x0.v[k]) + shift, squares < 0 ? 0 : squares, n};  // keeps NaN
  }
};

// Sums x - x0 and its square.
struct MomentsOp {
  using Total = Moments;
  const float* x;
  template <int kVec>
  using Registers = Vec<kVec>;
  template <bool kLast, int kVec>
  __device__ Vec<kVec> Prepare(size_t, size_t first) const {
    const Vec<kVec> v = At<kVec>(x, first);
    if constexpr (kLast) {
      return v;
    } else {
      return Broadcast<kVec>(v.v[0]);
    }
  }
  template <int kVec>
  __device__ Vec<kVec> Load(size_t i) const {
    return At<kVec>(x, i);
  }
  template <int kVec>
  __device__ void Accumulate(const Vec<kVec>& x0, const Vec<kVec>& v, size_t,
                             Two<kVec>& sums) const {
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      const float d = v.v[k] - x0.v[k];
      sums.a.v[k] += d;
      sums.b.v[k] += d * d;
    }
  }
};

// y = (x - mean) * (invstd * gamma) + beta. Forward, its rerun and the ReLU's gradient all compute
// it this way, so their bits agree.
__device__ __forceinline__ float Normalised(float x, float mean, float scale, float beta) {
  return fmaf(x - mean, scale, beta);
}

// A batch norm's gradient passes to it as it is, through a ReLU, through a sum, or through a ReLU
// after a sum.
enum class Through { kNothing, kRelu, kSum, kSumRelu };

template <int kVec>
struct Three {
  Vec<kVec> a, b, c;
};

// Sums dz and dz * (x - mean) * invstd, where dz is the gradient that reaches the normalisation.
template <Through kThrough>
struct GradientOp {
  using Total = Sums;
  BatchNormOperands in;
  BatchNormGradient gradient;
  template <int kVec>
  using Registers = std::conditional_t<kThrough == Through::kSumRelu, Three<kVec>, Two<kVec>>;
  template <int kVec>
  struct Constants {
    Vec<kVec> mean, invstd, scale, beta;
  };
  template <bool kLast, int kVec>
  __device__ Constants<kVec> Prepare(size_t c, size_t) const {
    Constants<kVec> of = {PerChannel<kLast, kVec>(in.mean, c),
                          PerChannel<kLast, kVec>(in.invstd, c)};
    if constexpr (kThrough == Through::kRelu) {
      of.scale = PerChannel<kLast, kVec>(in.gamma, c);
      of.beta = PerChannel<kLast, kVec>(in.beta, c);
#pragma unroll
      for (int k = 0; k < kVec; ++k) of.scale.v[k] = of.invstd.v[k] * of.scale.v[k];
    }
    return of;
  }
  template <int kVec>
  __device__ Registers<kVec> Load(size_t i) const {
    if constexpr (kThrough == Through::kSumRelu) {
      return {At<kVec>(in.x, i), At<kVec>(gradient.dy, i), At<kVec>(gradient.y, i)};
    } else {
      return {At<kVec>(in.x, i), At<kVec>(gradient.dy, i)};
    }
  }
  template <int kVec>
  __device__ void Accumulate(const Constants<kVec>& of, const Registers<kVec>& v, size_t i,
                             Two<kVec>& sums) const {
    Vec<kVec> dz = v.b;
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      const float x = v.a.v[k];
      if constexpr (kThrough == Through::kRelu) {
        const float y = Normalised(x, of.mean.v[k], of.scale.v[k], of.beta.v[k]);
        dz.v[k] = ReluGradient(y, dz.v[k]);
      } else if constexpr (kThrough == Through::kSumRelu) {
        dz.v[k] = ReluGradient(v.c.v[k], dz.v[k]);
      }
      sums.a.v[k] += dz.v[k];
      sums.b.v[k] += dz.v[k] * ((x - of.mean.v[k]) * of.invstd.v[k]);
    }
    if constexpr (kThrough == Through::kSum || kThrough == Through::kSumRelu)
      At<kVec>(gradient.daddend, i) = dz;
  }
};

struct StatisticsFinal {
  double count;
  float epsilon, momentum;
  BatchNormState state;
  __device__ void operator()(uint32_t c, const Moments::Of<double>& moments) const {
    const double variance = moments.squares / count;
    state.mean[c] = static_cast<float>(moments.mean);
    state.invstd[c] = static_cast<float>(1.0 / sqrt(variance + epsilon));
    if (state.running_mean == nullptr) return;
    const double unbiased = count > 1 ? variance * count / (count - 1) : variance;
    state.running_mean[c] =
        (1.0F - momentum) * state.running_mean[c] + momentum * static_cast<float>(moments.mean);
    state.running_var[c] =
        (1.0F - momentum) * state.running_var[c] + momentum * static_cast<float>(unbiased);
  }
};

// The normalised x, and what follows in the same pass.
template <bool kFromVariance, bool kAdd, bool kRelu>
struct ApplyOp {
  BatchNormOperands in;
  const float* addend;
  float epsilon;
  float* y;
  template <int kVec>
  using Registers = std::conditional_t<kAdd, Two<kVec>, Vec<kVec>>;
  template <int kVec>
  __device__ Registers<kVec> Load(size_t i) const {
    if constexpr (kAdd) {
      return {At<kVec>(in.x, i), At<kVec>(addend, i)};
    } else {
      return At<kVec>(in.x, i);
    }
  }
  template <bool kLast, int kVec>
  __device__ void Store(size_t i, size_t c, const Registers<kVec>& v) const {
    const Vec<kVec> mean = PerChannel<kLast, kVec>(in.mean, c),
                    invstd = PerChannel<kLast, kVec>(in.invstd, c);
    const Vec<kVec> gamma = PerChannel<kLast, kVec>(in.gamma, c),
                    beta = PerChannel<kLast, kVec>(in.beta, c);
    Vec<kVec> out;
    if constexpr (kAdd) {
      out = v.a;
    } else {
      out = v;
    }
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      const float inverse = kFromVariance ? 1.0F / sqrtf(invstd.v[k] + epsilon) : invstd.v[k];
      out.v[k] = Normalised(out.v[k], mean.v[k], inverse * gamma.v[k], beta.v[k]);
      if constexpr (kAdd) out.v[k] += v.b.v[k];
      if constexpr (kRelu) out.v[k] = ReluOf(out.v[k]);
    }
    At<kVec>(y, i) = out;
  }
};

// dx = gamma * invstd * (dz - (dbeta + xhat * dgamma) / count).
template <bool kRelu>
struct BackwardOp {
  BatchNormOperands in;
  const float* dz;  // before the ReLU's gradient, if kRelu
  const float* dgamma;
  const float* dbeta;
  float inverse_count;
  float* dx;
  template <int kVec>
  using Registers = Two<kVec>;
  template <int kVec>
  __device__ Two<kVec> Load(size_t i) const {
    return {At<kVec>(in.x, i), At<kVec>(dz, i)};
  }
  template <bool kLast, int kVec>
  __device__ void Store(size_t i, size_t c, Two<kVec> v) const {
    const Vec<kVec> mean = PerChannel<kLast, kVec>(in.mean, c),
                    invstd = PerChannel<kLast, kVec>(in.invstd, c);
    const Vec<kVec> gamma = PerChannel<kLast, kVec>(in.gamma, c);
    const Vec<kVec> sum = PerChannel<kLast, kVec>(dbeta, c),
                    product = PerChannel<kLast, kVec>(dgamma, c);
    if constexpr (kRelu) {
      const Vec<kVec> beta = PerChannel<kLast, kVec>(in.beta, c);
#pragma unroll
      for (int k = 0; k < kVec; ++k) {
        const float y = Normalised(v.a.v[k], mean.v[k], invstd.v[k] * gamma.v[k], beta.v[k]);
        v.b.v[k] = ReluGradient(y, v.b.v[k]);
      }
    }
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      const float normal = (v.a.v[k] - mean.v[k]) * invstd.v[k];
      const float centre = (sum.v[k] + normal * product.v[k]) * inverse_count;
      v.b.v[k] = gamma.v[k] * invstd.v[k] * (v.b.v[k] - centre);
    }
    At<kVec>(dx, i) = v.b;
  }
};

template <bool kFromVariance, bool kAdd, bool kRelu>
cudaError_t Apply(const ChannelShape& s, const BatchNormOperands& in, const float* addend,
                  float epsilon, float* y, cudaStream_t stream) {
  const bool aligned = AllAligned16(in.x, y, in.gamma, in.beta, in.mean, in.invstd, addend);
  return MapChannels(s, aligned, ApplyOp<kFromVariance, kAdd, kRelu>{in, addend, epsilon, y},
                     stream);
}

template <bool kFromVariance>
cudaError_t ApplyWith(const ChannelShape& s, const BatchNormOperands& in,
                      const BatchNormEpilogue& epilogue, float epsilon, float* y,
                      cudaStream_t stream) {
  const float* const addend = epilogue.addend;
  if (addend == nullptr) {
    return epilogue.relu ? Apply<kFromVariance, false, true>(s, in, addend, epsilon, y, stream)
                         : Apply<kFromVariance, false, false>(s, in, addend, epsilon, y, stream);
  }
  return epilogue.relu ? Apply<kFromVariance, true, true>(s, in, addend, epsilon, y, stream)
                       : Apply<kFromVariance, true, false>(s, in, addend, epsilon, y, stream);
}

template <Through kThrough>
cudaError_t SumsThrough(const ChannelShape& s, const BatchNormOperands& in,
                        const BatchNormGradient& gradient, float* dgamma, float* dbeta,
                        void* scratch, cudaStream_t stream) {
  const bool aligned = AllAligned16(in.x, in.mean, in.invstd, in.gamma, in.beta, gradient.dy,
                                    gradient.y, gradient.daddend);
  return Reduce(s, aligned, GradientOp<kThrough>{in, gradient}, SumsFinal{dbeta, dgamma}, scratch,
                stream);
}

}  // namespace

cudaError_t BatchNormStatistics(const ChannelShape& s, const float* x, float epsilon,
                                float momentum, const BatchNormState& state, void* scratch,
                                cudaStream_t stream) {
  const StatisticsFinal final = {.count = static_cast<double>(s.outer * s.inner),
                                 .epsilon = epsilon,
                                 .momentum = momentum,
                                 .state = state};
  return Reduce(s, Aligned16(x), MomentsOp{x}, final, scratch, stream);
}

cudaError_t BatchNormApply(const ChannelShape& s, const BatchNormOperands& in,
                           const BatchNormEpilogue& epilogue, float* y, cudaStream_t stream) {
  return ApplyWith<false>(s, in, epilogue, 0, y, stream);
}

cudaError_t BatchNormInference(const ChannelShape& s, const BatchNormOperands& in,
                               const BatchNormEpilogue& epilogue, float epsilon, float* y,
                               cudaStream_t stream) {
  return ApplyWith<true>(s, in, epilogue, epsilon, y, stream);
}

cudaError_t BatchNormSums(const ChannelShape& s, const BatchNormOperands& in,
                          const BatchNormGradient& gradient, float* dgamma, float* dbeta,
                          void* scratch, cudaStream_t stream) {
  const auto sums = [&](auto run) { return run(s, in, gradient, dgamma, dbeta, scratch, stream); };
  if (gradient.daddend != nullptr)
    return sums(gradient.relu ? SumsThrough<Through::kSumRelu> : SumsThrough<Through::kSum>);
  return sums(gradient.relu ? SumsThrough<Through::kRelu> : SumsThrough<Through::kNothing>);
}

cudaError_t BatchNormBackward(const ChannelShape& s, const BatchNormOperands& in,
                              const BatchNormGradient& gradient, const float* dgamma,
                              const float* dbeta, float* dx, cudaStream_t stream) {
  // After a sum, BatchNormSums() has written the gradient behind the ReLU to `daddend`.
  const bool masked = gradient.daddend != nullptr;
  const float* const dz = masked ? gradient.daddend : gradient.dy;
  const auto inverse_count = static_cast<float>(1.0 / static_cast<double>(s.outer * s.inner));
  const bool aligned =
      AllAligned16(in.x, dz, dx, in.mean, in.invstd, in.gamma, in.beta, dgamma, dbeta);
  if (gradient.relu && !masked) {
    return MapChannels(s, aligned, BackwardOp<true>{in, dz, dgamma, dbeta, inverse_count, dx},
                       stream);
  }
  return MapChannels(s, aligned, BackwardOp<false>{in, dz, dgamma, dbeta, inverse_count, dx},
                     stream);
}

}  // namespace neap::kernels
