// Batch norm. Forward computes statistics and then a map that applies them; backward computes sums
// and then a map that uses them.
//
// A variance is a small difference of large sums unless the squared values are near zero.
// Therefore a thread sums (x - x0), where x0 is its first element, and means and squared deviations
// are merged by Chan's formula. An outlier can be the x0 of only one thread's few elements.
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
  __device__ void Accumulate(const Vec<kVec>& x0, const Vec<kVec>& v, Two<kVec>& sums) const {
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      const float d = v.v[k] - x0.v[k];
      sums.a.v[k] += d;
      sums.b.v[k] += d * d;
    }
  }
};

// Sums dy and dy * (x - mean) * invstd.
struct GradientOp {
  using Total = Sums;
  const float* x;
  const float* dy;
  const float* mean;
  const float* invstd;
  template <int kVec>
  using Registers = Two<kVec>;
  template <bool kLast, int kVec>
  __device__ Two<kVec> Prepare(size_t c, size_t) const {
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

// y = (x - mean) * (invstd * gamma) + beta. Forward and rerun use this same kernel, so their bits
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
