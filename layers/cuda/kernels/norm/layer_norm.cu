// Layer norm: one pass forward, which computes the statistics of each position and applies them;
// backward, sums per channel (channel_reduce.cuh), and a pass like that forward.
#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/channel_position.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm_gradient.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm_moments.cuh"
#include "neap/layers/cuda/kernels/norm/image_norm.cuh"
#include "neap/layers/cuda/kernels/norm/image_norm.h"
#include "neap/layers/cuda/kernels/norm/layer_norm.cuh"

namespace neap::kernels {
namespace {

// The two values per position are the mean and invstd.
template <typename T>
struct LayerNormOp {
  using Total = Moments;
  ImageNormOperands in;
  ImageNormStatistics of;
  bool given;
  float channels, epsilon;
  T* y;
  template <int kVec>
  using Registers = Packed<T, kVec>;
  template <int kVec>
  __device__ Packed<T, kVec> Load(size_t i) const {
    return Read<kVec>(As<T>(in.x), i);
  }
  template <bool kLast, int kVec>
  __device__ Vec<kVec> Begin(size_t, const Packed<T, kVec>& loaded) const {
    const Vec<kVec> v = Unpack(loaded);
    if constexpr (kLast) {
      return Broadcast<kVec>(v.v[0]);
    } else {
      return v;
    }
  }
  template <bool kLast, int kVec>
  __device__ void Accumulate(const Vec<kVec>& x0, size_t, const Packed<T, kVec>& loaded,
                             Accumulators<2, kVec>& sums) const {
    AddDeviations(x0, Unpack(loaded), sums);
  }
  __device__ bool HasGiven() const { return given; }
  __device__ float2 Given(size_t position) const {
    return {of.mean[position], of.invstd[position]};
  }
  __device__ float2 End(size_t position, const Moments::Of<float>& total) const {
    const float2 values = {total.mean, 1.0F / sqrtf(total.squares / channels + epsilon)};
    if (of.mean != nullptr) {
      of.mean[position] = values.x;
      of.invstd[position] = values.y;
    }
    return values;
  }
  template <bool kLast, int kVec>
  __device__ void Store(const Vec<kVec>&, const Vec<kVec>& mean, const Vec<kVec>& invstd, size_t c,
                        size_t i, const Packed<T, kVec>& loaded) const {
    const Vec<kVec> gamma = PerChannelOr<kLast, kVec>(in.gamma, c, 1);
    const Vec<kVec> beta = PerChannelOr<kLast, kVec>(in.beta, c, 0);
    Vec<kVec> v = Unpack(loaded);
#pragma unroll
    for (int k = 0; k < kVec; ++k)
      v.v[k] = Normalised<T>(v.v[k], mean.v[k], invstd.v[k] * gamma.v[k], beta.v[k]);
    Write<kVec>(y, i, v);
  }
};

// The two values per position are the means of gamma * dy and of gamma * dy * xhat.
template <typename T>
struct LayerNormBackwardOp {
  using Total = Sums<2>;
  ImageNormOperands in;
  ImageNormStatistics of;
  float channels;
  const T* dy;
  T* dx;
  template <int kVec>
  using Registers = LoadedPair<T, kVec>;
  template <int kVec>
  __device__ LoadedPair<T, kVec> Load(size_t i) const {
    return {Read<kVec>(As<T>(in.x), i), Read<kVec>(dy, i)};
  }
  template <bool kLast, int kVec>
  __device__ Centred<kVec> Begin(size_t row, const LoadedPair<T, kVec>&) const {
    return {PerPosition<kLast, kVec>(of.mean, row), PerPosition<kLast, kVec>(of.invstd, row)};
  }
  template <bool kLast, int kVec>
  __device__ void Accumulate(const Centred<kVec>& centred, size_t c,
                             const LoadedPair<T, kVec>& loaded, Accumulators<2, kVec>& sums) const {
    const Vec<kVec> gamma = PerChannelOr<kLast, kVec>(in.gamma, c, 1);
    const Vec<kVec> x = Unpack(loaded.x), d = Unpack(loaded.dy);
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      const float weighted = gamma.v[k] * d.v[k];
      sums.v[0].v[k] += weighted;
      sums.v[1].v[k] += weighted * centred.Of(x.v[k], k);
    }
  }
  __device__ bool HasGiven() const { return false; }
  __device__ float2 Given(size_t) const { return {}; }
  __device__ float2 End(size_t, const Sums<2>::Of<float>& total) const {
    return {total.v[0] / channels, total.v[1] / channels};
  }
  template <bool kLast, int kVec>
  __device__ void Store(const Centred<kVec>& centred, const Vec<kVec>& mean_dy,
                        const Vec<kVec>& mean_dy_xhat, size_t c, size_t i,
                        const LoadedPair<T, kVec>& loaded) const {
    const Vec<kVec> gamma = PerChannelOr<kLast, kVec>(in.gamma, c, 1);
    Write<kVec>(dx, i,
                ImageNormGradient(centred, gamma, mean_dy, mean_dy_xhat, Unpack(loaded.x),
                                  Unpack(loaded.dy)));
  }
};

// Sums dy and dy * xhat per channel. `inner` is that of the shape.
template <typename T>
struct LayerNormSumsOp {
  static constexpr int kLoads = 2;
  using Total = Sums<2>;
  const T* x;
  const T* dy;
  ImageNormStatistics statistics;
  uint32_t inner;
  template <int kVec>
  struct Registers {
    Packed<T, kVec> x, dy;
    Centred<kVec> centred;
  };
  // Which of the layouts it is.
  template <bool kLast>
  struct Constants {};
  template <bool kLast, int kVec>
  __device__ Constants<kLast> Prepare(size_t, const RowPosition&) const {
    return {};
  }
  template <int kVec, bool kLast>
  __device__ Registers<kVec> Load(const Constants<kLast>&, const RowPosition& at) const {
    const size_t row = kLast ? at.row : static_cast<size_t>(at.row) * (inner / kVec) + at.within;
    return {Read<kVec>(x, at.i),
            Read<kVec>(dy, at.i),
            {PerPosition<kLast, kVec>(statistics.mean, row),
             PerPosition<kLast, kVec>(statistics.invstd, row)}};
  }
  template <int kVec, bool kLast>
  __device__ void Accumulate(const Constants<kLast>&, const Registers<kVec>& loaded, size_t,
                             Accumulators<2, kVec>& sums) const {
    const Vec<kVec> values = Unpack(loaded.x), d = Unpack(loaded.dy);
#pragma unroll
    for (int k = 0; k < kVec; ++k) {
      sums.v[0].v[k] += d.v[k];
      sums.v[1].v[k] += d.v[k] * loaded.centred.Of(values.v[k], k);
    }
  }
};

}  // namespace

cudaError_t LayerNorm(const ChannelShape& s, const ImageNormOperands& in, float epsilon,
                      const ImageNormStatistics& statistics, bool given, Array y,
                      cudaStream_t stream) {
  const bool aligned = AllAligned16(in.x, in.gamma, in.beta, statistics.mean, y);
  const auto run = [&]<typename T>() {
    const LayerNormOp<T> op = {in,      statistics, given, static_cast<float>(s.channels),
                               epsilon, As<T>(y)};
    return NormPositions<T>(s, aligned, op, stream);
  };
  return WithElement(run, in.x, y);
}

cudaError_t LayerNormBackward(const ChannelShape& s, const ImageNormOperands& in,
                              const ImageNormStatistics& statistics, ConstArray dy,
                              const ImageNormSums& sums, Array dx, const ReductionMemory& memory,
                              cudaStream_t stream) {
  const bool aligned = AllAligned16(in.x, in.gamma, statistics.mean, statistics.invstd, dy, dx);
  const auto run = [&]<typename T>() {
    if (sums.dgamma != nullptr) {
      const LayerNormSumsOp<T> op = {As<T>(in.x), As<T>(dy), statistics,
                                     static_cast<uint32_t>(s.inner)};
      const cudaError_t error = Reduce<T>(s, aligned, op, ImageNormSumsFinal{sums}, memory, stream);
      if (error != cudaSuccess) return error;
    }
    const LayerNormBackwardOp<T> op = {in, statistics, static_cast<float>(s.channels), As<T>(dy),
                                       As<T>(dx)};
    return NormPositions<T>(s, aligned, op, stream);
  };
  return WithElement(run, in.x, dy, dx);
}

}  // namespace neap::kernels
