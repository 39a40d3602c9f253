// Layer norm: one pass forward, which computes the statistics of each position and applies them.
// Backward is one pass, too, where the channels of a position fit a block's registers
// (layer_norm_rows.cuh); otherwise sums per channel (layer_norm_sums.cuh), and a pass like that
// forward.
#include <algorithm>

#include "neap/layers/cuda/kernels/channel_map.cuh"
#include "neap/layers/cuda/kernels/channel_position.cuh"
#include "neap/layers/cuda/kernels/channel_reduce.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm_gradient.cuh"
#include "neap/layers/cuda/kernels/norm/batch_norm_moments.cuh"
#include "neap/layers/cuda/kernels/norm/image_norm.cuh"
#include "neap/layers/cuda/kernels/norm/image_norm.h"
#include "neap/layers/cuda/kernels/norm/layer_norm.cuh"
#include "neap/layers/cuda/kernels/norm/layer_norm_rows.cuh"
#include "neap/layers/cuda/kernels/norm/layer_norm_sums.cuh"

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
  const T* addend;  // or null
  T* dx;
  template <int kVec>
  using Registers = LoadedGradient<T, kVec>;
  template <int kVec>
  __device__ LoadedGradient<T, kVec> Load(size_t i) const {
    LoadedGradient<T, kVec> loaded = {Read<kVec>(As<T>(in.x), i), Read<kVec>(dy, i), {}};
    if (addend != nullptr) loaded.sum = Read<kVec>(addend, i);
    return loaded;
  }
  template <bool kLast, int kVec>
  __device__ Centred<kVec> Begin(size_t row, const LoadedGradient<T, kVec>&) const {
    return {PerPosition<kLast, kVec>(of.mean, row), PerPosition<kLast, kVec>(of.invstd, row)};
  }
  template <bool kLast, int kVec>
  __device__ void Accumulate(const Centred<kVec>& centred, size_t c,
                             const LoadedGradient<T, kVec>& loaded,
                             Accumulators<2, kVec>& sums) const {
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
                        const LoadedGradient<T, kVec>& loaded) const {
    const Vec<kVec> gamma = PerChannelOr<kLast, kVec>(in.gamma, c, 1);
    Vec<kVec> v = ImageNormGradient(centred, gamma, mean_dy, mean_dy_xhat, Unpack(loaded.x),
                                    Unpack(loaded.dy));
    if (addend != nullptr) AddSum<T>(loaded, v);
    Write<kVec>(dx, i, v);
  }
};

}  // namespace

int64_t LayerNormScratchBytes(const ChannelShape& s, Element type) {
  // Which way is taken depends on the addresses, too.
  return std::max(PositionSumsScratchBytes(s, type), GradientRowsScratchBytes(s, type));
}

cudaError_t LayerNorm(const ChannelShape& s, const ImageNormOperands& in, float epsilon,
                      const ImageNormStatistics& statistics, bool given, Array y,
                      cudaStream_t stream) {
  const bool aligned = AllAligned16(in.x, y) && HasAlignedParameters(s, in);
  const auto run = [&]<typename T>() {
    const LayerNormOp<T> op = {in,      statistics, given, static_cast<float>(s.channels),
                               epsilon, As<T>(y)};
    return NormPositions<T>(s, aligned, op, stream);
  };
  return WithElement(run, in.x, y);
}

cudaError_t LayerNormBackward(const ChannelShape& s, const ImageNormOperands& in,
                              const ImageNormStatistics& statistics, ConstArray dy,
                              const ImageNormSums& sums, ConstArray addend, Array dx,
                              const ReductionMemory& memory, cudaStream_t stream) {
  // Statistics are read in vectors where positions are.
  const bool aligned = AllAligned16(in.x, dy, addend, dx) && HasAlignedParameters(s, in) &&
                       (s.channels_last || AllAligned16(statistics.mean, statistics.invstd));
  const auto run = [&]<typename T>() {
    const LayerNormBackwardOp<T> op = {in,        statistics,    static_cast<float>(s.channels),
                                       As<T>(dy), As<T>(addend), As<T>(dx)};
    if (sums.dgamma == nullptr) return NormPositions<T>(s, aligned, op, stream);
    if (aligned && CutGradientRows(s, kWide<T>).width > 0)
      return LaunchGradientRows<T>(s, op, sums, memory.scratch, stream);
    const PositionSums<T> sums_op = {As<T>(in.x), As<T>(dy), statistics};
    const cudaError_t error = SumPositions(s, aligned, sums_op, sums, memory, stream);
    return error == cudaSuccess ? NormPositions<T>(s, aligned, op, stream) : error;
  };
  return WithElement(run, in.x, dy, addend, dx);
}

}  // namespace neap::kernels
