// Means over whole images, per channel.
#include "neap/layers/cuda/kernels/device_math.cuh"
#include "neap/layers/cuda/kernels/kernels.h"

namespace neap::kernels {
namespace {

// One warp per plane.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    GlobalAveragePlanes(const T* __restrict__ x, T* __restrict__ y, size_t planes, int inner) {
  const size_t plane = static_cast<size_t>(blockIdx.x) * (kThreads / 32) + threadIdx.x / 32;
  if (plane >= planes) return;
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x % 32); i < inner; i += 32)
    sum += ToFloat(x[plane * inner + i]);
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_down_sync(~0U, sum, offset);
  if (threadIdx.x % 32 == 0) y[plane] = RoundTo<T>(sum / static_cast<float>(inner));
}

// One thread per vector of channels and image; neighbouring threads read neighbouring elements.
template <int kVec, typename T>
__global__ void __launch_bounds__(kThreads)
    GlobalAverageRows(const T* __restrict__ x, T* __restrict__ y, size_t outputs,
                      Divider<uint32_t> channels, int inner) {
  const size_t i = static_cast<size_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= outputs) return;
  uint32_t c = 0;
  const size_t image = channels.Split(static_cast<uint32_t>(i), c);
  const size_t from = image * inner * channels.divisor + c;
  Vec<kVec> sum = {};
#pragma unroll 8
  for (int p = 0; p < inner; ++p) {
    const Vec<kVec> v = Unpack(Read<kVec>(x, from + static_cast<size_t>(p) * channels.divisor));
#pragma unroll
    for (int k = 0; k < kVec; ++k) sum.v[k] += v.v[k];
  }
#pragma unroll
  for (float& f : sum.v) f /= static_cast<float>(inner);
  Write<kVec>(y, i, sum);
}

// NCHW: block = inner. NHWC: block = inner * channels, one image. Channels are counted in vectors.
template <int kVec, typename Index, typename T>
__global__ void __launch_bounds__(kThreads)
    GlobalAverageBackward(const T* __restrict__ dy, T* __restrict__ dx, Index n,
                          Divider<Index> block, Divider<Index> channels, bool channels_last,
                          float scale, bool adds) {
  const Index i = static_cast<Index>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= n) return;
  Index within = 0, c = 0;
  Index from = block.Split(i, within);
  if (channels_last) {
    channels.Split(i, c);
    from = from * static_cast<Index>(channels.divisor) + c;
  }
  Vec<kVec> v = Unpack(Read<kVec>(dy, from));
#pragma unroll
  for (float& f : v.v) f *= scale;
  WriteOrAdd<kVec>(dx, i, v, adds);
}

// A thread reads one word of each pixel: wider vectors would leave too few threads.
template <typename T>
cudaError_t AverageRows(const ChannelShape& s, const T* x, T* y, cudaStream_t stream) {
  constexpr int kWord = 4 / static_cast<int>(sizeof(T));
  const auto launch = [&]<int kVec>() {
    const int64_t outputs = s.outer * s.channels / kVec;
    GlobalAverageRows<kVec><<<BlocksOf(outputs), kThreads, 0, stream>>>(
        x, y, static_cast<size_t>(outputs), Divider<uint32_t>(s.channels / kVec),
        static_cast<int>(s.inner));
  };
  s.channels % kWord == 0 && AllAligned16(x, y) ? launch.template operator()<kWord>()
                                                : launch.template operator()<1>();
  return cudaGetLastError();
}

template <int kVec, typename T>
cudaError_t AverageBackward(const ChannelShape& s, const T* dy, T* dx, bool adds,
                            cudaStream_t stream) {
  const int64_t n = s.outer * s.channels * s.inner / kVec;
  const int64_t block = s.channels_last ? s.inner * s.channels / kVec : s.inner;
  const float scale = 1.0F / static_cast<float>(s.inner);
  const auto launch = [&]<typename Index>() {
    GlobalAverageBackward<kVec><<<BlocksOf(n), kThreads, 0, stream>>>(
        dy, dx, static_cast<Index>(n), Divider<Index>(block), Divider<Index>(s.channels / kVec),
        s.channels_last, scale, adds);
  };
  Fits32(n) ? launch.template operator()<uint32_t>() : launch.template operator()<uint64_t>();
  return cudaGetLastError();
}

}  // namespace

cudaError_t GlobalAveragePool(const ChannelShape& s, ConstArray x, Array y, cudaStream_t stream) {
  const int64_t outputs = s.outer * s.channels;
  if (!Fits32(outputs) || !Fits32(s.inner)) return cudaErrorInvalidValue;
  const auto run = [&]<typename T>() {
    if (s.channels_last) return AverageRows(s, As<T>(x), As<T>(y), stream);
    GlobalAveragePlanes<<<BlocksOf(outputs * 32), kThreads, 0, stream>>>(
        As<T>(x), As<T>(y), static_cast<size_t>(outputs), static_cast<int>(s.inner));
    return cudaGetLastError();
  };
  return WithElement(run, x, y);
}

cudaError_t GlobalAveragePoolBackward(const ChannelShape& s, ConstArray dy, Array dx, bool adds,
                                      cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    const bool wide = s.channels_last && s.channels % kWide<T> == 0 && AllAligned16(dy, dx);
    return wide ? AverageBackward<kWide<T>>(s, As<T>(dy), As<T>(dx), adds, stream)
                : AverageBackward<1>(s, As<T>(dy), As<T>(dx), adds, stream);
  };
  return WithElement(run, dy, dx);
}

}  // namespace neap::kernels
