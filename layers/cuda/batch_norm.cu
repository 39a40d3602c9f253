// Batch-norm: statistics, then the map that applies them; backward, sums and then the map that
// needs them.
//
// Statistics are sums of (x - x0), x0 the channel's first element, which keeps the variance exact
// when the mean is far from zero.
#include "neap/layers/cuda/channel_map.cuh"
#include "neap/layers/cuda/channel_reduce.cuh"
#include "neap/layers/cuda/kernels.h"

namespace neap::kernels {
namespace {

// x - x0 and its square.
struct MomentsOp {
  const float* x;
  size_t channel_stride;  // from one channel's first element to the next
  template <int kVec>
  using Registers = Vec<kVec>;
  template <int kVec>
  using Constants = Vec<kVec>;
  template <bool kLast, int kVec>
  __device__ Vec<kVec> Prepare(size_t c) const {
    if constexpr (kLast) {
      return At<kVec>(x, c / kVec);
    } else {
      return Broadcast<kVec>(x[c * channel_stride]);
    }
  }
  template <int kVec>
  __device__ Vec<kVec> Load(size_t i) const {
    return At<kVec>(x, i);
  }
  template <int kVec>
  __device__ void Accumulate(const Vec<kVec>& x0, const Vec<kVec>& v, Two<kVec>& sums) const {
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      const float d = v.v[k] - x0.v[k];
      sums.a.v[k] += d;
      sums.b.v[k] += d * d;
    }
  }
};

// dy and dy * (x - mean) * invstd.
struct GradientOp {
  const float* x;
  const float* dy;
  const float* mean;
  const float* invstd;
  template <int kVec>
  using Registers = Two<kVec>;
  template <int kVec>
  using Constants = Two<kVec>;
  template <bool kLast, int kVec>
  __device__ Two<kVec> Prepare(size_t c) const {
    return {PerChannel<kLast, kVec>(mean, c), PerChannel<kLast, kVec>(invstd, c)};
  }
  template <int kVec>
  __device__ Two<kVec> Load(size_t i) const {
    return {At<kVec>(x, i), At<kVec>(dy, i)};
  }
  template <int kVec>
  __device__ void Accumulate(const Two<kVec>& c, const Two<kVec>& v, Two<kVec>& sums) const {
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      sums.a.v[k] += v.b.v[k];
      sums.b.v[k] += v.b.v[k] * ((v.a.v[k] - c.a.v[k]) * c.b.v[k]);
    }
  }
};

struct StatisticsFinal {
  const float* x;
  size_t channel_stride;
  double count;
  float epsilon, momentum;
  BatchNormState state;
  __device__ void operator()(uint32_t c, double sum, double squares) const {
    const double shift = sum / count;
    const double variance = fmax(squares / count - shift * shift, 0.0);
    const double mean = x[c * channel_stride] + shift;
    state.mean[c] = static_cast<float>(mean);
    state.invstd[c] = static_cast<float>(1.0 / sqrt(variance + epsilon));
    if (state.running_mean == nullptr) return;
    const double unbiased = count > 1 ? variance * count / (count - 1) : variance;
    state.running_mean[c] =
        (1.0F - momentum) * state.running_mean[c] + momentum * static_cast<float>(mean);
    state.running_var[c] =
        (1.0F - momentum) * state.running_var[c] + momentum * static_cast<float>(unbiased);
  }
};

// y = (x - mean) * (invstd * gamma) + beta. Forward and rerun are this one kernel, so their bits
// agree.
template <bool kFromVariance>
struct ApplyOp {
  BatchNormOperands in;
  float epsilon;
  float* y;
  template <int kVec>
  using Registers = Vec<kVec>;
  template <int kVec>
  __device__ Vec<kVec> Load(size_t i) const {
    return At<kVec>(in.x, i);
  }
  template <bool kLast, int kVec>
  __device__ void Store(size_t i, size_t c, Vec<kVec> v) const {
    const Vec<kVec> mean = PerChannel<kLast, kVec>(in.mean, c),
                    invstd = PerChannel<kLast, kVec>(in.invstd, c);
    const Vec<kVec> gamma = PerChannel<kLast, kVec>(in.gamma, c),
                    beta = PerChannel<kLast, kVec>(in.beta, c);
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      const float inverse = kFromVariance ? 1.0F / sqrtf(invstd.v[k] + epsilon) : invstd.v[k];
      v.v[k] = (v.v[k] - mean.v[k]) * (inverse * gamma.v[k]) + beta.v[k];
    }
    At<kVec>(y, i) = v;
  }
};

// dx = gamma * invstd * (dy - (dbeta + xhat * dgamma) / count).
struct BackwardOp {
  BatchNormOperands in;
  const float* dy;
  const float* dgamma;
  const float* dbeta;
  float inverse_count;
  float* dx;
  template <int kVec>
  using Registers = Two<kVec>;
  template <int kVec>
  __device__ Two<kVec> Load(size_t i) const {
    return {At<kVec>(in.x, i), At<kVec>(dy, i)};
  }
  template <bool kLast, int kVec>
  __device__ void Store(size_t i, size_t c, Two<kVec> v) const {
    const Vec<kVec> mean = PerChannel<kLast, kVec>(in.mean, c),
                    invstd = PerChannel<kLast, kVec>(in.invstd, c);
    const Vec<kVec> gamma = PerChannel<kLast, kVec>(in.gamma, c);
    const Vec<kVec> sum = PerChannel<kLast, kVec>(dbeta, c),
                    product = PerChannel<kLast, kVec>(dgamma, c);
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      const float normal = (v.a.v[k] - mean.v[k]) * invstd.v[k];
      const float centre = (sum.v[k] + normal * product.v[k]) * inverse_count;
      v.b.v[k] = gamma.v[k] * invstd.v[k] * (v.b.v[k] - centre);
    }
    At<kVec>(dx, i) = v.b;
  }
};

size_t ChannelStride(const ChannelShape& s) {
  return s.channels_last ? 1 : static_cast<size_t>(s.inner);
}

}  // namespace

cudaError_t BatchNormStatistics(const ChannelShape& s, const float* x, float epsilon,
                                float momentum, const BatchNormState& state, void* scratch,
                                cudaStream_t stream) {
  const StatisticsFinal final = {.x = x,
                                 .channel_stride = ChannelStride(s),
                                 .count = static_cast<double>(s.outer * s.inner),
                                 .epsilon = epsilon,
                                 .momentum = momentum,
                                 .state = state};
  return Reduce(s, Aligned16(x), MomentsOp{x, ChannelStride(s)}, final, scratch, stream);
}

cudaError_t BatchNormApply(const ChannelShape& s, const BatchNormOperands& in, float* y,
                           cudaStream_t stream) {
  const bool aligned = AllAligned16(in.x, y, in.gamma, in.beta, in.mean, in.invstd);
  return MapChannels(s, aligned, ApplyOp<false>{in, 0, y}, stream);
}

cudaError_t BatchNormInference(const ChannelShape& s, const BatchNormOperands& in, float epsilon,
                               float* y, cudaStream_t stream) {
  const bool aligned = AllAligned16(in.x, y, in.gamma, in.beta, in.mean, in.invstd);
  return MapChannels(s, aligned, ApplyOp<true>{in, epsilon, y}, stream);
}

cudaError_t BatchNormSums(const ChannelShape& s, const BatchNormOperands& in, const float* dy,
                          float* dgamma, float* dbeta, void* scratch, cudaStream_t stream) {
  const bool aligned = AllAligned16(in.x, dy, in.mean, in.invstd);
  return Reduce(s, aligned, GradientOp{in.x, dy, in.mean, in.invstd}, SumsFinal{dbeta, dgamma},
                scratch, stream);
}

cudaError_t BatchNormBackward(const ChannelShape& s, const BatchNormOperands& in, const float* dy,
                              const float* dgamma, const float* dbeta, float* dx,
                              cudaStream_t stream) {
  const BackwardOp op = {
      in, dy, dgamma, dbeta, static_cast<float>(1.0 / static_cast<double>(s.outer * s.inner)), dx};
  const bool aligned =
      AllAligned16(in.x, dy, dx, in.mean, in.invstd, in.gamma, dgamma) && Aligned16(dbeta);
  return MapChannels(s, aligned, op, stream);
}

}  // namespace neap::kernels
