// Pooling (kernels/pooling/pooling.cuh).
#include "neap/layers/cuda/kernels/kernels.h"
#include "neap/layers/cuda/kernels/pooling/pooling.cuh"

namespace neap::kernels {
namespace {

template <int kAxes, int kVec, typename T, typename I>
__global__ void __launch_bounds__(kThreads)
    MaxPoolBackwardKernel(PoolShape s, WindowDividers by, Decoder<uint32_t, kAxes> decode,
                          uint32_t inputs, const T* __restrict__ dy, const I* __restrict__ index,
                          T* __restrict__ dx) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= inputs) return;
  Write<kVec>(dx, i, GatherGradient<kAxes, kVec>(s, by, decode(i), dy, index));
}

// The elements of a window along one axis that its mean counts. Windows in ceil_mode may pass the
// end of the padding.
__device__ __forceinline__ int Counted(bool with_padding, int size, int padding, int origin,
                                       int kernel, const Divider<uint32_t>& dilation) {
  if (with_padding) return ElementsBefore(size + padding, origin, kernel, dilation);
  return ElementsBefore(size, origin, kernel, dilation) -
         ElementsBefore(0, origin, kernel, dilation);
}

// The number of elements in the mean of the window whose first element is at `origin`.
template <int kAxes>
__device__ __forceinline__ float WindowSize(const PoolShape& s, const AxisDividers& dilation,
                                            const Place& origin) {
  const bool all = s.count_padding;
  int size = Counted(all, s.h, s.padding_h, origin.h, s.kernel_h, dilation.h) *
             Counted(all, s.w, s.padding_w, origin.w, s.kernel_w, dilation.w);
  if constexpr (kAxes == 3)
    size *= Counted(all, s.d, s.padding_d, origin.d, s.kernel_d, dilation.d);
  return static_cast<float>(size);
}

template <int kAxes, int kVec, typename T>
__global__ void __launch_bounds__(kThreads)
    AveragePoolKernel(PoolShape s, AxisDividers dilation, Decoder<uint32_t, kAxes> decode,
                      uint32_t outputs, const T* __restrict__ x, T* __restrict__ y) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= outputs) return;
  const Position<uint32_t> p = decode(i);
  const Strides in = InStrides<kAxes>(s, kVec);
  const Place origin = OriginOf<kAxes>(s, PlaceOf(p));
  const size_t base = p.outer * in.image + p.channel;
  Vec<kVec> sum = {};
  ForEachInWindow<kAxes>(s, dilation, origin, [&](const Place& k) {
    const Vec<kVec> v =
        Unpack(Read<kVec>(x, base + static_cast<size_t>(origin.d + k.d * s.dilation_d) * in.plane +
                                 static_cast<size_t>(origin.h + k.h * s.dilation_h) * in.row +
                                 static_cast<size_t>(origin.w + k.w * s.dilation_w) * in.pixel));
#pragma unroll
    for (int lane = 0; lane < kVec; ++lane) sum.v[lane] += v.v[lane];
  });
  const float size = WindowSize<kAxes>(s, dilation, origin);
#pragma unroll
  for (float& f : sum.v) f /= size;
  Write<kVec>(y, i, sum);
}

template <int kAxes, int kVec, typename T>
__global__ void __launch_bounds__(kThreads)
    AveragePoolBackwardKernel(PoolShape s, WindowDividers by, Decoder<uint32_t, kAxes> decode,
                              uint32_t inputs, const T* __restrict__ dy, T* __restrict__ dx) {
  const uint32_t i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= inputs) return;
  Vec<kVec> sum = {};
  ForEachCovering<kAxes, kVec>(s, by, decode(i), [&](size_t at, const Place& window, const Place&) {
    const Vec<kVec> g = Unpack(Read<kVec>(dy, at));
    const float size = WindowSize<kAxes>(s, by.dilation, OriginOf<kAxes>(s, window));
#pragma unroll
    for (int k = 0; k < kVec; ++k) sum.v[k] += g.v[k] / size;
  });
  Write<kVec>(dx, i, sum);
}

template <typename I>
cudaError_t LaunchMaxPoolBackward(const PoolShape& s, ConstArray dy, const I* index, Array dx,
                                  cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return WithAxes(s, [&]<int kAxes>() {
      return ForEach<T, kAxes>(
          s.outer, InGrid(s), s.channels, AllAligned16(dy, dx, index),
          [&]<int kVec>(const auto& decode, uint32_t n, unsigned blocks, int64_t first) {
            MaxPoolBackwardKernel<kAxes, kVec><<<blocks, kThreads, 0, stream>>>(
                s, WindowDividers(s), decode, n, As<T>(dy) + first * OutImage(s),
                index + first * OutImage(s), As<T>(dx) + first * InImage(s));
          });
    });
  };
  return WithElement(run, dy, dx);
}

}  // namespace

cudaError_t MaxPool(const PoolShape& s, ConstArray x, Array y, void* index, bool wide_index,
                    cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    const auto launch = [&]<typename I>(I* at) {
      return LaunchMaxPool(s, s.channels, AsItIs{}, true, As<T>(x), As<T>(y), at, stream);
    };
    return wide_index ? launch(static_cast<int32_t*>(index)) : launch(static_cast<uint8_t*>(index));
  };
  return WithElement(run, x, y);
}

cudaError_t MaxPoolBackward(const PoolShape& s, ConstArray dy, const void* index, bool wide_index,
                            Array dx, cudaStream_t stream) {
  return wide_index ? LaunchMaxPoolBackward(s, dy, static_cast<const int32_t*>(index), dx, stream)
                    : LaunchMaxPoolBackward(s, dy, static_cast<const uint8_t*>(index), dx, stream);
}

cudaError_t AveragePool(const PoolShape& s, ConstArray x, Array y, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return WithAxes(s, [&]<int kAxes>() {
      return ForEach<T, kAxes>(
          s.outer, OutGrid(s), s.channels, AllAligned16(x, y),
          [&]<int kVec>(const auto& decode, uint32_t n, unsigned blocks, int64_t first) {
            AveragePoolKernel<kAxes, kVec><<<blocks, kThreads, 0, stream>>>(
                s, DilationDividers(s), decode, n, As<T>(x) + first * InImage(s),
                As<T>(y) + first * OutImage(s));
          });
    });
  };
  return WithElement(run, x, y);
}

cudaError_t AveragePoolBackward(const PoolShape& s, ConstArray dy, Array dx, cudaStream_t stream) {
  const auto run = [&]<typename T>() {
    return WithAxes(s, [&]<int kAxes>() {
      return ForEach<T, kAxes>(
          s.outer, InGrid(s), s.channels, AllAligned16(dy, dx),
          [&]<int kVec>(const auto& decode, uint32_t n, unsigned blocks, int64_t first) {
            AveragePoolBackwardKernel<kAxes, kVec><<<blocks, kThreads, 0, stream>>>(
                s, WindowDividers(s), decode, n, As<T>(dy) + first * OutImage(s),
                As<T>(dx) + first * InImage(s));
          });
    });
  };
  return WithElement(run, dy, dx);
}

}  // namespace neap::kernels
