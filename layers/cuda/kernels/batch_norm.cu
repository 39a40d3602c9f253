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
  static constexpr int kResident = 4;
  template <typename T>
  struct Of {
    using Number = T;
    double mean;
    T squares;
    T count;
    template <typename U>
    __device__ void Merge(const Of<U>& other) {
      if (other.count != 0) Merge(other, other.count / (count + other.count));
    }
    // `weight` is the other's share of all elements.
    template <typename U>
    __device__ void Merge(const Of<U>& other, T weight) {
      if (other.count == 0) return;
      const double delta = other.mean - mean;
      const T d = static_cast<T>(delta);
      squares += other.squares + d * weight * count * d;
      mean += delta * weight;
      count += other.count;
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
template <typename T>
struct MomentsOp {
  using Total = Moments;
  const T* x;
  template <int kVec>
  using Registers = Packed<T, kVec>;
  template <bool kLast, int kVec>
  __device__ Vec<kVec> Prepare(size_t, size_t first) const {
    const Vec<kVec> v = Unpack(Read<kVec>(x, first));
    if constexpr (kLast) {
      return v;
    } else {
      return Broadcast<kVec>(v.v[0]);
    }
  }
  template <int kVec>
  __device__ Packed<T, kVec> Load(size_t i) const {
    return Read<kVec>(x, i);
  }
  template <int kVec>
  __device__ void Accumulate(const Vec<kVec>& x0, const Packed<T, kVec>& in, size_t,
                             Two<Vec<kVec>>& sums) const {
    const Vec<kVec> v = Unpack(in);
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      const float d = v.v[k] - x0.v[k];
      sums.a.v[k] += d;
      sums.b.v[k] += d * d;
    }
  }
};

// y = (x - mean) * (invstd * gamma) + beta as a T, the value that a batch norm alone stores.
// Forward, its rerun and the ReLU's gradient all compute it this way, so their bits agree.
template <typename T>
__device__ __forceinline__ float Normalised(float x, float mean, float scale, float beta) {
  return Rounded<T>(fmaf(x - mean, scale, beta));
}

// A batch norm's gradient passes to it as it is, through a ReLU, through a sum, or through a ReLU
// after a sum.
enum class Through { kNothing, kRelu, kSum, kSumRelu };

template <typename V>
struct Three {
  V a, b, c;
};

// Sums dz and dz * (x - mean) * invstd, where dz is the gradient that reaches the normalisation.
template <Through kThrough, typename T>
struct GradientOp {
  using Total = Sums;
  BatchNormOperands in;
  BatchNormGradient gradient;
  template <int kVec>
  using Registers = std::conditional_t<kThrough == Through::kSumRelu, Three<Packed<T, kVec>>,
                                       Two<Packed<T, kVec>>>;
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
    const T* const x = As<T>(in.x);
    const T* const dy = As<T>(gradient.dy);
    if constexpr (kThrough == Through::kSumRelu) {
      return {Read<kVec>(x, i), Read<kVec>(dy, i), Read<kVec>(As<T>(gradient.y), i)};
    } else {
      return {Read<kVec>(x, i), Read<kVec>(dy, i)};
    }
  }
  template <int kVec>
  __device__ void Accumulate(const Constants<kVec>& of, const Registers<kVec>& in, size_t i,
                             Two<Vec<kVec>>& sums) const {
    const Vec<kVec> x = Unpack(in.a);
    Vec<kVec> dz = Unpack(in.b), y = {};
    if constexpr (kThrough == Through::kSumRelu) y = Unpack(in.c);
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      if constexpr (kThrough == Through::kRelu)
        y.v[k] = Normalised<T>(x.v[k], of.mean.v[k], of.scale.v[k], of.beta.v[k]);
      if constexpr (kThrough == Through::kRelu || kThrough == Through::kSumRelu)
        dz.v[k] = ReluGradient(y.v[k], dz.v[k]);
      sums.a.v[k] += dz.v[k];
      sums.b.v[k] += dz.v[k] * ((x.v[k] - of.mean.v[k]) * of.invstd.v[k]);
    }
    if constexpr (kThrough == Through::kSum || kThrough == Through::kSumRelu)
      Write<kVec>(As<T>(gradient.daddend), i, dz);
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

// The normalised x, and what follows in the same pass. The sum needs no rounding before the ReLU:
// rounding keeps its sign, and 0.
template <bool kAdd, typename T>
struct ApplyOp {
  BatchNormOperands in;
  const T* addend;
  bool relu;
  bool from_variance;
  float epsilon;
  T* y;
  template <int kVec>
  using Registers = std::conditional_t<kAdd, Two<Packed<T, kVec>>, Packed<T, kVec>>;
  template <int kVec>
  struct Constants {
    Vec<kVec> mean, scale, beta;
  };
  template <int kVec>
  __device__ Registers<kVec> Load(size_t i) const {
    if constexpr (kAdd) {
      return {Read<kVec>(As<T>(in.x), i), Read<kVec>(addend, i)};
    } else {
      return Read<kVec>(As<T>(in.x), i);
    }
  }
  template <bool kLast, int kVec>
  __device__ Constants<kVec> Prepare(size_t c) const {
    const Vec<kVec> gamma = PerChannel<kLast, kVec>(in.gamma, c);
    Constants<kVec> of = {PerChannel<kLast, kVec>(in.mean, c),
                          PerChannel<kLast, kVec>(in.invstd, c),
                          PerChannel<kLast, kVec>(in.beta, c)};
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      if (from_variance) of.scale.v[k] = 1.0F / sqrtf(of.scale.v[k] + epsilon);
      of.scale.v[k] *= gamma.v[k];
    }
    return of;
  }
  template <int kVec>
  __device__ void Store(size_t i, const Constants<kVec>& of, const Registers<kVec>& v) const {
    Vec<kVec> out, other;
    if constexpr (kAdd) {
      out = Unpack(v.a);
      other = Unpack(v.b);
    } else {
      out = Unpack(v);
    }
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      out.v[k] = Normalised<T>(out.v[k], of.mean.v[k], of.scale.v[k], of.beta.v[k]);
      if constexpr (kAdd) out.v[k] += other.v[k];
      if (relu) out.v[k] = ReluOf(out.v[k]);
    }
    Write<kVec>(y, i, out);
  }
};

// dx = gamma * invstd * (dz - (dbeta + xhat * dgamma) / count).
template <bool kRelu, typename T>
struct BackwardOp {
  BatchNormOperands in;
  const T* dz;  // before the ReLU's gradient, if kRelu
  const float* dgamma;
  const float* dbeta;
  float inverse_count;
  T* dx;
  template <int kVec>
  using Registers = Two<Packed<T, kVec>>;
  template <int kVec>
  struct Constants {
    Vec<kVec> mean, invstd, scale, beta, sum, product;
  };
  template <int kVec>
  __device__ Registers<kVec> Load(size_t i) const {
    return {Read<kVec>(As<T>(in.x), i), Read<kVec>(dz, i)};
  }
  template <bool kLast, int kVec>
  __device__ Constants<kVec> Prepare(size_t c) const {
    Constants<kVec> of = {.mean = PerChannel<kLast, kVec>(in.mean, c),
                          .invstd = PerChannel<kLast, kVec>(in.invstd, c),
                          .scale = PerChannel<kLast, kVec>(in.gamma, c),
                          .sum = PerChannel<kLast, kVec>(dbeta, c),
                          .product = PerChannel<kLast, kVec>(dgamma, c)};
    if constexpr (kRelu) of.beta = PerChannel<kLast, kVec>(in.beta, c);
#pragma unroll
    for (int k = 0; k < kVec; ++k) of.scale.v[k] *= of.invstd.v[k];
    return of;
  }
  template <int kVec>
  __device__ void Store(size_t i, const Constants<kVec>& of, const Registers<kVec>& v) const {
    const Vec<kVec> x = Unpack(v.a);
    Vec<kVec> d = Unpack(v.b);
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      if constexpr (kRelu) {
        const float y = Normalised<T>(x.v[k], of.mean.v[k], of.scale.v[k], of.beta.v[k]);
        d.v[k] = ReluGradient(y, d.v[k]);
      }
      const float normal = (x.v[k] - of.mean.v[k]) * of.invstd.v[k];
      const float centre = (of.sum.v[k] + normal * of.product.v[k]) * inverse_count;
      d.v[k] = of.scale.v[k] * (d.v[k] - centre);
    }
    Write<kVec>(dx, i, d);
  }
};

cudaError_t Apply(const ChannelShape& s, const BatchNormOperands& in,
                  const BatchNormEpilogue& epilogue, bool from_variance, float epsilon, Array y,
                  cudaStream_t stream) {
  const ConstArray& addend = epilogue.addend;
  const bool aligned = AllAligned16(in.x, y, in.gamma, in.beta, in.mean, in.invstd, addend);
  const auto run = [&]<typename T>() {
    const auto map = [&]<bool kAdd>() {
      return MapChannels<T>(
          s, aligned,
          ApplyOp<kAdd, T>{in, As<T>(addend), epilogue.relu, from_variance, epsilon, As<T>(y)},
          stream);
    };
    return addend.data == nullptr ? map.template operator()<false>()
                                  : map.template operator()<true>();
  };
  return WithElement(run, in.x, addend, y);
}

template <Through kThrough>
cudaError_t SumsThrough(const ChannelShape& s, const BatchNormOperands& in,
                        const BatchNormGradient& gradient, float* dgamma, float* dbeta,
                        const ReductionMemory& memory, cudaStream_t stream) {
  const bool aligned = AllAligned16(in.x, in.mean, in.invstd, in.gamma, in.beta, gradient.dy,
                                    gradient.y, gradient.daddend);
  const auto run = [&]<typename T>() {
    return Reduce<T>(s, aligned, GradientOp<kThrough, T>{in, gradient}, SumsFinal{dbeta, dgamma},
                     memory, stream);
  };
  return WithElement(run, in.x, gradient.dy, gradient.y, gradient.daddend);
}

}  // namespace

cudaError_t BatchNormStatistics(const ChannelShape& s, ConstArray x, float epsilon, float momentum,
                                const BatchNormState& state, const ReductionMemory& memory,
                                cudaStream_t stream) {
  const StatisticsFinal final = {.count = static_cast<double>(s.outer * s.inner),
                                 .epsilon = epsilon,
                                 .momentum = momentum,
                                 .state = state};
  const auto run = [&]<typename T>() {
    return Reduce<T>(s, Aligned16(x), MomentsOp<T>{As<T>(x)}, final, memory, stream);
  };
  return WithElement(run, x);
}

cudaError_t BatchNormApply(const ChannelShape& s, const BatchNormOperands& in,
                           const BatchNormEpilogue& epilogue, Array y, cudaStream_t stream) {
  return Apply(s, in, epilogue, /*from_variance=*/false, 0, y, stream);
}

cudaError_t BatchNormInference(const ChannelShape& s, const BatchNormOperands& in,
                               const BatchNormEpilogue& epilogue, float epsilon, Array y,
                               cudaStream_t stream) {
  return Apply(s, in, epilogue, /*from_variance=*/true, epsilon, y, stream);
}

cudaError_t BatchNormSums(const ChannelShape& s, const BatchNormOperands& in,
                          const BatchNormGradient& gradient, float* dgamma, float* dbeta,
                          const ReductionMemory& memory, cudaStream_t stream) {
  const auto sums = [&](auto run) { return run(s, in, gradient, dgamma, dbeta, memory, stream); };
  if (gradient.daddend.data != nullptr)
    return sums(gradient.relu ? SumsThrough<Through::kSumRelu> : SumsThrough<Through::kSum>);
  return sums(gradient.relu ? SumsThrough<Through::kRelu> : SumsThrough<Through::kNothing>);
}

cudaError_t BatchNormBackward(const ChannelShape& s, const BatchNormOperands& in,
                              const BatchNormGradient& gradient, const float* dgamma,
                              const float* dbeta, Array dx, cudaStream_t stream) {
  // After a sum, BatchNormSums() has written the gradient behind the ReLU to `daddend`.
  const bool masked = gradient.daddend.data != nullptr;
  const ConstArray dz = masked ? gradient.daddend : gradient.dy;
  const auto inverse_count = static_cast<float>(1.0 / static_cast<double>(s.outer * s.inner));
  const bool aligned =
      AllAligned16(in.x, dz, dx, in.mean, in.invstd, in.gamma, in.beta, dgamma, dbeta);
  const auto run = [&]<typename T>() {
    const auto map = [&]<bool kRelu>() {
      return MapChannels<T>(
          s, aligned, BackwardOp<kRelu, T>{in, As<T>(dz), dgamma, dbeta, inverse_count, As<T>(dx)},
          stream);
    };
    return gradient.relu && !masked ? map.template operator()<true>()
                                    : map.template operator()<false>();
  };
  return WithElement(run, in.x, dz, dx);
}

}  // namespace neap::kernels
